"""What other servers say again and again: a message at the head of a room, of a sender and a type that the
rules have allowed before, while the room's state is the very same. `Reception` receives everything else.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.auth_rules import is_judged_by_name, state_needed
from federation.bounded_cache import BoundedCache
from federation.known_event import KnownEvent
from federation.pdu import Pdu
from federation.pdu.heard_message import heard_message
from federation.pdu.message import Frame, frame_of
from federation.policy_server import POLICY
from federation.receipt import ACCEPTED, Accepted, Genuine, authorise, needed_for_step_4
from federation.server_acl import ServerAcl
from federation.service.event_examiner import EventExaminer
from federation.service.room_ports import AnsweredWith, Results
from federation.service.room_store import RoomMemory, RoomStore
from federation.service.room_writing import RoomWriting

MOST_REMEMBERED: Final = 5_000


@dataclass(frozen=True, slots=True)
class _Allowed:
    frame: Frame
    rejections: int
    """How many there had been. It counts until there is another one: an event of which the place was unknown
    may be judged anew where it stands."""


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
        # What the rules have allowed, by the state, the sender and the type.
        self._allowed: BoundedCache[tuple[int, str, str], _Allowed] = BoundedCache(MOST_REMEMBERED)

    async def hear(self, origin: str, event: Any, answered: AnsweredWith) -> Results | None:
        """The event of a transaction that has no other. None: there is more to it, and nothing has been
        written."""
        room_id = event.get("room_id") if isinstance(event, dict) else None
        memory = self._store.remembered_room(room_id) if isinstance(room_id, str) else None
        if memory is None or not await self._admits(memory, origin):
            return None
        group_id = memory.view.state_group
        pdu = await self._as_before(event, memory) or await self._new(event, memory)
        if pdu is None:
            return None
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

    async def _as_before(self, event: Mapping[str, Any], memory: RoomMemory) -> Pdu | None:
        """A message like one that the rules have allowed, down to its auth events."""
        sender, type_ = event.get("sender"), event.get("type")
        if type(sender) is not str or type(type_) is not str:
            return None
        allowed = self._allowed.get((memory.view.state_group, sender, type_))
        if allowed is None or allowed.rejections != self._store.rejections:
            return None
        heard = heard_message(allowed.frame, event)
        if heard is None or not await self._examiner.is_signed(*heard, memory.view.version):
            return None
        return heard[0]

    async def _new(self, event: Mapping[str, Any], memory: RoomMemory) -> Pdu | None:
        """A message that the rules allow."""
        genuine = await self._examiner.examine_one(event, memory.view.version)
        if isinstance(genuine, Genuine) and await self._is_allowed(genuine, memory):
            return genuine.pdu
        return None

    async def _is_allowed(self, genuine: Genuine, memory: RoomMemory) -> bool:
        """Steps 4 and 5, if the event's auth events are the very ones that the state asks for; where that is
        the current state, step 6 asks nothing else."""
        pdu = genuine.pdu
        group_id, version, rejections = memory.view.state_group, memory.view.version, self._store.rejections
        if (
            pdu.state_key is not None
            or genuine.oversized is not None
            or pdu.type == "m.room.redaction"
            or not is_judged_by_name(pdu.type)
        ):
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
        frame = frame_of(pdu, version)
        if frame is not None:
            self._allowed.put((group_id, pdu.sender, pdu.type), _Allowed(frame, rejections))
        return True
