"""Takes in a room that another server let us join: what `send_join` returned, all of it checked."""

from collections.abc import Iterable
from typing import Any

from federation.client.peer_events import StateIds
from federation.events import CREATE, EventId, Pdu, create_event_id, room_id_of
from federation.events.received import Accepted, Dropped
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion, version_of_create_event
from federation.rooms.commit import RoomWriting
from federation.rooms.receive import state_of, take_outliers
from federation.rooms.receive_checks import Genuine
from federation.rooms.verify_events import EventExaminer


class RoomImport:
    def __init__(self, server_name: str, writing: RoomWriting, examiner: EventExaminer) -> None:
        self._server_name = server_name
        self._writing = writing
        self._examiner = examiner

    async def run(
        self, origin: str, version: RoomVersion, state: Iterable[Any], auth_chain: Iterable[Any], event: Any
    ) -> Pdu:
        room_id = room_id_of(event)
        if room_id is None:
            raise PeerError(origin, "gave a join that is of no room")
        ((_, join),) = await self._examiner.examine([(event, version)])
        if isinstance(join, Dropped):
            raise PeerError(origin, f"gave a join that is refused: {join}")
        in_state = await self._genuine(room_id, state, version)
        behind = await self._genuine(room_id, auth_chain, version)
        _check_create(origin, room_id, version, [*in_state.values(), *behind.values()])
        async with self._writing.session([room_id], origin) as session:
            draft = session.drafts.get(room_id) or await session.new_room(room_id, version)
            if draft.version is not version:
                raise PeerError(origin, f"says that the room has version {version.id}, which it has not")
            await draft.load([join.pdu.event_id], placed=True)
            if draft.has_place(join.pdu.event_id):
                return join.pdu
            await take_outliers(draft, {**behind, **in_state})
            before = await state_of(draft, StateIds(tuple(in_state), tuple(behind)))
            if CREATE not in before:
                raise PeerError(origin, "gave a state without a create event that holds")
            known_state = await draft.group_of(before, await draft.current())
            verdict = await draft.judge(join, known_state, current=None)
            if not isinstance(verdict, Accepted):
                raise PeerError(origin, f"gave a state in which the join is refused: {verdict}")
            if not (await draft.joined()).get(self._server_name):
                # What has happened since this server left is unknown. The room goes on where the join is.
                draft.extremities = ()
            await draft.place(join.pdu, verdict, known_state)
        return join.pdu

    async def _genuine(
        self, room_id: str, events: Iterable[Any], version: RoomVersion
    ) -> dict[EventId, Genuine]:
        """Those of the events that are what they seem. The others are dropped, as if they had not come."""
        examined = await self._examiner.examine(((one, version) for one in events), enforce_counts=False)
        return {
            result.pdu.event_id: result
            for _, result in examined
            if isinstance(result, Genuine) and result.pdu.room_id == room_id
        }


def _check_create(origin: str, room_id: str, version: RoomVersion, events: list[Genuine]) -> None:
    """There is one create event, of this room and of the version that was agreed on."""
    creates = {genuine.pdu.event_id: genuine.pdu for genuine in events if genuine.pdu.key == CREATE}
    if len(creates) != 1:
        raise PeerError(origin, f"gave a room with {len(creates)} create events")
    (create,) = creates.values()
    if version_of_create_event(create.content) != version.id:
        raise PeerError(origin, f"gave a create event that is not of version {version.id}")
    if version.create_event_is_room_id and create.event_id != create_event_id(room_id):
        raise PeerError(origin, "gave the create event of another room")
