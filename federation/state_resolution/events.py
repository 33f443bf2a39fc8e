"""The events that state resolution reads: those that the caller has loaded, and a list of those it has
not."""

from collections.abc import Collection, Container, Mapping

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.events import CREATE, EventId, Pdu, create_event_id
from federation.matrix.room_version import RoomVersion


class EventSource:
    """Looks up events and records missing ones, so that the caller can load all of them at once."""

    __slots__ = ("_absent", "_auth_edges", "_loaded", "missing", "version")

    def __init__(
        self,
        loaded: Mapping[EventId, Pdu],
        auth_edges: Mapping[EventId, Collection[EventId]] | None,
        absent: Container[EventId],
        version: RoomVersion,
    ) -> None:
        self._loaded = loaded
        self._auth_edges = auth_edges
        self._absent = absent
        self.missing: set[EventId] = set()
        self.version = version

    def get(self, event_id: EventId) -> Pdu | None:
        pdu = self._loaded.get(event_id)
        if pdu is None and event_id not in self._absent:
            self.missing.add(event_id)
        return pdu

    def auth_events_of(self, event_id: EventId) -> Collection[EventId]:
        """The ids of the auth events. The edges of the graph are enough; the event need not be loaded."""
        if self._auth_edges is not None:
            edges = self._auth_edges.get(event_id)
            if edges is not None:
                return edges
        pdu = self.get(event_id)
        return () if pdu is None else pdu.auth_events

    def create_of(self, pdu: Pdu) -> Pdu | None:
        """The create event of an event's room: from room version 12 on it is derived from the room id, before
        that it is among the auth events."""
        if self.version.create_event_is_room_id:
            return self.get(create_event_id(pdu.room_id))
        return next((entry for entry in map(self.get, pdu.auth_events) if entry and entry.key == CREATE), None)

    def power_levels_of(self, pdu: Pdu) -> Pdu | None:
        """The power levels among an event's auth events."""
        return next((entry for entry in map(self.get, pdu.auth_events) if entry and entry.key == POWER_LEVELS), None)
