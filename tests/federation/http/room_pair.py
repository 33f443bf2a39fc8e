"""Two nodes in one room: one whose room and transaction endpoints are tested, and one that sends requests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from federation.client.requests import request_target
from federation.events import EventId, Pdu
from federation.events.event_signatures import hash_and_sign
from federation.events.room_event import NewEvent
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.http.membership_pair import Pair
from tests.federation.nodes import Nodes, signer_of
from tests.support.postgres import Server


@dataclass
class RoomPair(Pair):
    """`asked` is Alice's server, `asking` is Bob's; both are in `room_id`."""

    room_id: str = ""

    async def post(self, path: str, body: dict[str, Any], **names: str) -> Any:
        return await self.asking.client.request("POST", self.asked.name, request_target(path, **names), body)

    async def current(self) -> list[EventId]:
        """Return the event ids of the current state."""
        return list((await self.asked.graph.current_state(self.room_id)).values())

    async def says(self, body: str) -> Pdu:
        """Send a message of Alice."""
        return await self.asked.graph.send_event(self.room_id, "m.room.message", {"body": body}, self.alice)


@asynccontextmanager
async def room_pair(server: Server, template: str, version: str = "12") -> AsyncIterator[RoomPair]:
    async with AsyncExitStack() as stack:
        asked, asking = await Nodes(server, template, stack).start("asked.test", "asking.test")
        pair = RoomPair(asked, asking, await asked.create(version, asked.user("alice")))
        await _join(pair, version)
        yield pair


async def _join(pair: RoomPair, version: str) -> None:
    """Join without the membership endpoints, which have tests of their own."""
    event = NewEvent("m.room.member", pair.bob, {"membership": "join"}, pair.bob)
    template = await pair.asked.graph.prepare_event(pair.room_id, event)
    signer = signer_of(pair.asking.name)
    signed = hash_and_sign(template, ROOM_VERSIONS[version], signer.server, signer.key_id, signer.key)
    joined = await pair.asked.graph.accept_membership(pair.asking.name, pair.room_id, signed)
    before = await pair.asked.graph.state_at(joined.event_id)
    assert before is not None
    events = await pair.asked.graph.events(before.values())
    chain = await pair.asked.graph.events(await pair.asked.graph.auth_chain([joined.event_id, *events]))
    await pair.asking.graph.import_room(
        pair.asked.name,
        ROOM_VERSIONS[version],
        state=[pdu.event for pdu in events.values()],
        auth_chain=[pdu.event for pdu in chain.values()],
        event=joined.event,
    )
