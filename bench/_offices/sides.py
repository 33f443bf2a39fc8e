"""The two that are compared, as the load generator has to know them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NODE, REFERENCE = "node", "reference"


@dataclass(frozen=True, slots=True)
class Listener:
    """Where a server listens, and with what it lets Agents and Computers in."""

    port: int
    token: str


@dataclass(frozen=True, slots=True)
class Place:
    """An office as its Agent and its Computer come into it, who may each have a server of their own. It is
    called the same at both."""

    agent: Listener
    computer: Listener
    office_id: str


@dataclass(frozen=True, slots=True)
class Settings:
    """What the load generator is told: by a name the offices that are asked together."""

    places: Mapping[str, tuple[Place, ...]]


def settings_of(given: dict[str, Any]) -> Settings:
    """From what `asdict` made of them."""
    return Settings(
        {
            name: tuple(
                Place(Listener(**one["agent"]), Listener(**one["computer"]), one["office_id"])
                for one in places
            )
            for name, places in given["places"].items()
        }
    )


def as_dict(settings: Settings) -> dict[str, Any]:
    """What a process is told by its command line."""
    return dataclasses.asdict(settings)
