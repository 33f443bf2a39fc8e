"""Imports a room that this server has joined through another one: checks and stores what `send_join`
returned."""

from collections.abc import Iterable
from typing import Any

from federation.client.peer_events import StateIds
from federation.events import CREATE, EventId, Pdu, create_event_id, room_id_of
from federation.events.received import Accepted, Dropped
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion, version_of_create_event
from federation.rooms.commit import RoomWriter
from federation.rooms.receive import known_state, receive_outliers
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.verify_events import EventVerifier


class RoomImporter:
    """Imports rooms that this server has joined through other servers."""

    def __init__(self, server_name: str, writer: RoomWriter, verifier: EventVerifier) -> None:
        self._server_name = server_name
        self._writer = writer
        self._verifier = verifier

    async def run(
        self, origin: str, version: RoomVersion, state: Iterable[Any], auth_chain: Iterable[Any], event: Any
    ) -> Pdu:
        room_id = room_id_of(event)
        if room_id is None:
            raise PeerError(origin, "returned a join without a room id")
        ((_, join),) = await self._verifier.verify([(event, version)])
        if isinstance(join, Dropped):
            raise PeerError(origin, f"returned a join that is not valid: {join}")
        state_events = await self._verified(room_id, state, version)
        auth_events = await self._verified(room_id, auth_chain, version)
        _check_create(origin, room_id, version, [*state_events.values(), *auth_events.values()])
        async with self._writer.session([room_id], origin) as session:
            draft = session.drafts.get(room_id) or await session.new_room(room_id, version)
            if draft.version is not version:
                raise PeerError(origin, f"returned room version {version.id}, but the room has {draft.version.id}")
            await draft.load([join.pdu.event_id], refresh_outliers=True)
            if draft.is_in_graph(join.pdu.event_id):
                return join.pdu
            await receive_outliers(draft, {**auth_events, **state_events})
            state_before = await known_state(draft, StateIds(tuple(state_events), tuple(auth_events)))
            if CREATE not in state_before:
                raise PeerError(origin, "returned a state without a valid create event")
            group = await draft.state_group_for(state_before, await draft.current())
            verdict = await draft.authorise(join, group, current=None)
            if not isinstance(verdict, Accepted):
                raise PeerError(origin, f"returned a state that does not allow the join: {verdict}")
            if not (await draft.joined_servers()).get(self._server_name):
                # Events since this server left are unknown. The room continues at the join.
                draft.extremities = ()
            await draft.insert(join.pdu, verdict, group)
        return join.pdu

    async def _verified(
        self, room_id: str, events: Iterable[Any], version: RoomVersion
    ) -> dict[EventId, VerifiedEvent]:
        """Verify the events and return the valid ones of this room. The others are ignored."""
        verified = await self._verifier.verify(((one, version) for one in events), enforce_counts=False)
        return {
            result.pdu.event_id: result
            for _, result in verified
            if isinstance(result, VerifiedEvent) and result.pdu.room_id == room_id
        }


def _check_create(origin: str, room_id: str, version: RoomVersion, events: list[VerifiedEvent]) -> None:
    """Require exactly one create event, of this room and of the expected room version."""
    creates = {event.pdu.event_id: event.pdu for event in events if event.pdu.key == CREATE}
    if len(creates) != 1:
        raise PeerError(origin, f"returned a room with {len(creates)} create events")
    (create,) = creates.values()
    if version_of_create_event(create.content) != version.id:
        raise PeerError(origin, f"returned a create event that is not of room version {version.id}")
    if version.create_event_is_room_id and create.event_id != create_event_id(room_id):
        raise PeerError(origin, "returned the create event of another room")
