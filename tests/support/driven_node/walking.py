"""Steps that all tours of a room share."""

from typing import Any

import pytest

from tests.support.driven_node.resident import Resident
from tests.support.matrix_client import MatrixClient, Refused

Person = Resident | MatrixClient
Sides = tuple[Person, Person, Person]
"""The owner of a room, a user of the other server who joins it, and a second user of that server."""


async def shared_room(host: Person, *guests: Person, **request: Any) -> str:
    """A public room that all of them have joined."""
    room_id = await host.create_room(**{"preset": "public_chat", **request})
    for guest in guests:
        await guest.join(room_id, via=[host.server_name])
        await host.wait_for_member(room_id, guest.user_id, "join")
    return room_id


async def talk(room_id: str, one: Person, other: Person) -> None:
    """Check that each receives a message of the other."""
    for speaker, hearer in ((one, other), (other, one)):
        await hearer.wait_for_event(await speaker.say(room_id, "hello"))


async def refused(asked: Any) -> str:
    """Check that an action is refused; return the error text."""
    with pytest.raises(Refused) as refusal:
        await asked
    # For a banned user, a Synapse returns the latter.
    assert refusal.value.errcode in ("M_FORBIDDEN", "M_BAD_STATE"), refusal.value
    assert refusal.value.status == 403
    return str(refusal.value.error)
