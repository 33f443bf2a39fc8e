"""What other servers say again and again: a message at the head of a room, of a sender and a type that the
rules have allowed before, while the room's state is the very same. `Reception` receives everything else.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from federation.auth_rules import is_judged_by_name, state_needed
from federation.bounded_cache import BoundedCache
from federation.known_event import KnownEvent
from federation.pdu import EventId
from federation.policy_server import POLICY
from federation.receipt import ACCEPTED, Accepted, Genuine, authorise, needed_for_step_4
from federation.server_acl import ServerAcl
from federation.service.event_examiner import EventExaminer
from federation.service.room_ports import AnsweredWith, Results
from federation.service.room_store import RoomMemory, RoomStore
from federation.service.room_writing import RoomWriting

MOST_REMEMBERED: Final = 5_000


class PlainHearing:
    """`acl` gives what a room says of servers."""

    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writing: RoomWriting,
        examiner: EventExaminer,
        acl: Callable[[RoomMemory], Awaitable[ServerAcl]],
    ) -> None:
        self._server_name = server_name
        self._store = store
        self._writing = writing
        self._examiner = examiner
        self._acl = acl
        # Servers that may send into a room, by the room's state, which belongs to one room and never changes.
        self._admitted: BoundedCache[tuple[int, str], bool] = BoundedCache(MOST_REMEMBERED)
        # What the rules have allowed: by the state, the sender, the type and the auth events. It counts until
        # an event is rejected, since one of which the place was unknown may be judged anew.
        self._allowed: BoundedCache[tuple[int, str, str, tuple[EventId, ...]], int] = BoundedCache(
            MOST_REMEMBERED
        )

    async def hear(self, origin: str, event: Any, answered: AnsweredWith) -> Results | None:
        """The event of a transaction that has no other. None: there is more to it, and nothing has been
        written."""
        room_id = event.get("room_id") if isinstance(event, dict) else None
        memory = self._store.remembered_room(room_id) if isinstance(room_id, str) else None
        if memory is None or not await self._admits(memory, origin):
            return None
        genuine = await self._examiner.examine_one(event, memory.view.version)
        if not isinstance(genuine, Genuine) or not await self._is_allowed(genuine, memory):
            return None
        pdu, group_id = genuine.pdu, memory.view.state_group
        # The state after a message is the state before it.
        placed = KnownEvent(pdu, "accepted", None, group_id, group_id)
        results = {pdu.event_id: ACCEPTED}
        if await self._writing.hear_plainly(placed, origin, lambda: answered(results)):
            return results
        return None

    async def _admits(self, memory: RoomMemory, origin: str) -> bool:
        group_id = memory.view.state_group
        if self._admitted.get((group_id, origin)):
            return True
        if (
            not memory.joined.get(self._server_name)
            # A policy server is asked of each event.
            or POLICY in (await self._store.group(group_id)).state
            or not (await self._acl(memory)).allows(origin)
        ):
            return False
        self._admitted.put((group_id, origin), True)
        return True

    async def _is_allowed(self, genuine: Genuine, memory: RoomMemory) -> bool:
        """Steps 4 and 5, if the event's auth events are the very ones that the state asks for; where that is
        the current state, step 6 asks nothing else."""
        pdu = genuine.pdu
        group_id, version, rejections = memory.view.state_group, memory.view.version, self._store.rejections
        named = group_id, pdu.sender, pdu.type, pdu.auth_events
        if pdu.state_key is not None or pdu.type == "m.room.redaction" or genuine.oversized is not None:
            return False
        if self._allowed.get(named) == rejections:
            return True
        if not is_judged_by_name(pdu.type):
            return False
        state = (await self._store.group(group_id)).state
        ids = {key: state[key] for key in state_needed(pdu, version) if key in state}
        if set(ids.values()) != set(needed_for_step_4(pdu, version)):
            return False
        found = await self._store.events(ids.values())
        if len(found) != len(ids) or any(event.verdict == "rejected" for event in found.values()):
            return False
        pdus = {event_id: event.pdu for event_id, event in found.items()}
        before = {key: pdus[event_id] for key, event_id in ids.items()}
        if not isinstance(authorise(genuine, version, pdus, before, None), Accepted):
            return False
        self._allowed.put(named, rejections)
        return True
