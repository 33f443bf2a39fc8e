"""Requests in the name of a person."""

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.control.agents.context import ForPeople, address_of
from bridge.people.permissions import Level, Rights
from storage.errors import LocalError

ALICE, BOB, EVE = (f"@{name}:their.server" for name in ("alice", "bob", "eve"))


class OnlyAlice:
    """Can act only for Alice. Satisfies `SpeaksForPeople`."""

    async def can_send_as(self, person: str) -> bool:
        return person == ALICE

    async def send_as(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        raise AssertionError("no message is sent before the task exists")


FOR_PEOPLE = ForPeople(OnlyAlice(), Rights({ALICE: Level.WORK, BOB: Level.WORK, EVE: Level.LOOK}))


async def test_the_person_has_an_address_of_this_node() -> None:
    """The same address as for requests in a room."""
    assert await address_of(ALICE, FOR_PEOPLE, "here") == AgentAddress("alice:their.server", "here")


@pytest.mark.parametrize(
    ("person", "for_people", "words"),
    [
        ("alice", FOR_PEOPLE, "not a Matrix user id"),
        (ALICE, None, "cannot act for people"),
        (EVE, FOR_PEOPLE, 'the rule "@eve:their.server" = "look"'),
        ("@carol:their.server", FOR_PEOPLE, "no rule of"),
        (BOB, FOR_PEOPLE, "cannot act for @bob"),
        (f"@{'=' * 100}:y", FOR_PEOPLE, "cannot request tasks here"),
    ],
)
async def test_a_request_that_is_not_possible_is_refused(person: str, for_people: ForPeople | None, words: str) -> None:
    """Each reason has its own message."""
    with pytest.raises(LocalError, match=words):
        await address_of(person, for_people, "here")
