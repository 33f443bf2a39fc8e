"""The two compared sides, as the load generator needs them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NODE, BOT = "node", "bot"
THREADS, BESIDE = "bot in threads", "node beside the bot in threads"
"""The same bot in a room in which it answers as the node does, in a thread of each question; and the node in
a room that is as new as that one."""


@dataclass(frozen=True, slots=True)
class Answerer:
    """A user who repeats what it receives, its room, and the `name` by which it is mentioned there."""

    user_id: str
    name: str
    room_id: str


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the homeserver with a session."""

    user_id: str
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the load generator. The first person reads, all of them send."""

    homeserver: str
    authority: str
    people: tuple[Person, ...]
    answerers: Mapping[str, Answerer]


def settings_of(given: dict[str, Any]) -> Settings:
    """Reverse `asdict`."""
    return Settings(
        homeserver=given["homeserver"],
        authority=given["authority"],
        people=tuple(Person(**one) for one in given["people"]),
        answerers={side: Answerer(**one) for side, one in given["answerers"].items()},
    )


def as_dict(settings: Settings) -> dict[str, Any]:
    """Return what a process is given on its command line."""
    return dataclasses.asdict(settings)
