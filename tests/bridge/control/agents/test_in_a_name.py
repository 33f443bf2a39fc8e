"""Asking in the name of a person."""

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.control.agents.context import ForPeople, address_of
from bridge.people.permissions import Level, Rights
from storage.errors import LocalError

ALICE, BOB, EVE = (f"@{name}:their.server" for name in ("alice", "bob", "eve"))


class AliceAlone:
    """Satisfies `SpeaksForPeople`."""

    async def can_speak_for(self, person: str) -> bool:
        return person == ALICE

    async def speak(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        raise AssertionError("nothing is said before the task is there")


FOR_PEOPLE = ForPeople(AliceAlone(), Rights({ALICE: Level.WORK, BOB: Level.WORK, EVE: Level.LOOK}))


async def test_the_person_asks() -> None:
    """Under an address of this node, as in a room."""
    assert await address_of(ALICE, FOR_PEOPLE, "here") == AgentAddress("alice:their.server", "here")


@pytest.mark.parametrize(
    ("person", "for_people", "words"),
    [
        ("alice", FOR_PEOPLE, "no Matrix user"),
        (ALICE, None, "speaks for nobody"),
        (EVE, FOR_PEOPLE, 'the rule "@eve:their.server" = "look"'),
        ("@carol:their.server", FOR_PEOPLE, "no rule of"),
        (BOB, FOR_PEOPLE, "cannot speak for @bob"),
        (f"@{'=' * 100}:y", FOR_PEOPLE, "cannot ask for anything here"),
    ],
)
async def test_why_not_is_said(person: str, for_people: ForPeople | None, words: str) -> None:
    """Each in a sentence of its own."""
    with pytest.raises(LocalError, match=words):
        await address_of(person, for_people, "here")
