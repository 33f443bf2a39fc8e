"""The two that are compared, as the load generator has to know them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GUEST, BOT = "guest", "bot"
THREADS, BESIDE = "bot in threads", "guest beside the bot in threads"
"""The same bot in a room in which it answers as the guest does, in a thread of each question; and the guest
in a room that is as new as that one."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A user who says what he has heard, and the room in which he does. `name`: how he is addressed there."""

    user_id: str
    name: str
    room_id: str


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the homeserver with his session."""

    user_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the load generator is told. The first of the people reads, all of them speak."""

    homeserver: str
    authority: str
    people: tuple[Person, ...]
    answerers: Mapping[str, Answerer]


def settings_of(given: dict[str, Any]) -> Settings:
    """From what `asdict` made of them."""
    return Settings(
        homeserver=given["homeserver"],
        authority=given["authority"],
        people=tuple(Person(**one) for one in given["people"]),
        answerers={side: Answerer(**one) for side, one in given["answerers"].items()},
    )


def as_dict(settings: Settings) -> dict[str, Any]:
    """What a process is told by its command line."""
    return dataclasses.asdict(settings)
