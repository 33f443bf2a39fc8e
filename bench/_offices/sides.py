"""The two compared sides, as the load generator needs them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NODE, REFERENCE = "node", "reference"


@dataclass(frozen=True, slots=True)
class Listener:
    """The address of a server, and the token for Agents and Computers."""

    port: int
    token: str


@dataclass(frozen=True, slots=True)
class Place:
    """An office, with the servers of its Agent and its Computer, which may differ. It has the same name on
    both."""

    agent: Listener
    computer: Listener
    office_id: str


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the load generator: groups of offices by name."""

    places: Mapping[str, tuple[Place, ...]]


def settings_of(given: dict[str, Any]) -> Settings:
    """Reverse `asdict`."""
    return Settings(
        {
            name: tuple(
                Place(Listener(**one["agent"]), Listener(**one["computer"]), one["office_id"]) for one in places
            )
            for name, places in given["places"].items()
        }
    )


def as_dict(settings: Settings) -> dict[str, Any]:
    """Return what a process is given on its command line."""
    return dataclasses.asdict(settings)
