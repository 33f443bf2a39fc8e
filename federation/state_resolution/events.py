"""Where state resolution takes events from: what its caller has loaded, and a list of what it has not."""

from collections.abc import Collection, Container, Mapping

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.events import CREATE, EventId, Pdu, create_event_id
from federation.matrix.room_version import RoomVersion


class EventSource:
    """Looks events up and remembers which it did not find, so that they are all asked for at once."""

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
        """The ids of its auth events. The edges of the graph are enough to know them."""
        if self._auth_edges is not None:
            edges = self._auth_edges.get(event_id)
            if edges is not None:
                return edges
        pdu = self.get(event_id)
        return () if pdu is None else pdu.auth_events

    def create_of(self, pdu: Pdu) -> Pdu | None:
        """The create event on which an event rests: from version 12 on its room id says which, before that
        its auth events do."""
        if self.version.create_event_is_room_id:
            return self.get(create_event_id(pdu.room_id))
        return next(
            (entry for entry in map(self.get, pdu.auth_events) if entry and entry.key == CREATE), None
        )

    def power_levels_of(self, pdu: Pdu) -> Pdu | None:
        """The power levels among an event's auth events."""
        return next(
            (entry for entry in map(self.get, pdu.auth_events) if entry and entry.key == POWER_LEVELS), None
        )
