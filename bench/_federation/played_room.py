"""A room of the load generator: a chain of signed events, for which all requests can be answered."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from federation.auth_rules import auth_event_keys
from federation.events import EventId, Pdu, Signer, StateKey, Template, build
from federation.events import graph as event_graph
from federation.events.builder import unsigned_event
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.memberships import send_join_response
from federation.state_resolution.conflicts import reachable
from storage.rooms.events import GraphEntry

# As canonical JSON such a message has some 850 bytes, like many a message.
_MESSAGE = {"msgtype": "m.text", "body": "Scale set to 4.2 kg; next reading at noon. " * 4}


class PlayedRoom:
    """Each event follows the one before it, so that the state before any of them is known without resolving.

    The first of the `members` makes the room; each is signed for by its server.
    """

    def __init__(
        self, room_id: str, version: RoomVersion, members: Sequence[str], signers: Mapping[str, Signer], now: int
    ) -> None:
        self.room_id = room_id
        self.version = version
        self.events: dict[EventId, Pdu] = {}
        self.state: dict[StateKey, Pdu] = {}
        self._signers = signers
        self._now = now
        self._head: Pdu | None = None
        self._places: dict[EventId, int] = {}
        self._ancestors: dict[EventId, GraphEntry] = {}
        # The places of the state events, in their order, and what each put where.
        self._changes: list[int] = []
        self._changed: list[Pdu] = []
        creator, *others = members
        content: dict[str, Any] = {"room_version": version.id}
        self._send("m.room.create", creator, content, "")
        self._send("m.room.member", creator, {"membership": "join"}, creator)
        self._send("m.room.power_levels", creator, {"users": {creator: 100}}, "")
        self._send("m.room.join_rules", creator, {"join_rule": "public"}, "")
        for member in others:
            self._send("m.room.member", member, {"membership": "join"}, member)

    # -- its events --

    def say(self, sender: str, now: int) -> Pdu:
        """Append a message."""
        self._now = now
        return self._send("m.room.message", sender, _MESSAGE)

    def set_state(self, type_: str, sender: str, content: Mapping[str, Any], state_key: str) -> Pdu:
        """Append a state event."""
        return self._send(type_, sender, content, state_key)

    def join_template(self, user: str, now: int) -> dict[str, Any]:
        """Return the response to `make_join`."""
        self._now = now
        return unsigned_event(self._template("m.room.member", user, {"membership": "join"}, user))

    def take_in(self, join: Pdu) -> None:
        """Append a join that another server has made from the template. It must be the next event."""
        assert self._head is not None, "a room is made with its first events"
        assert join.prev_events == (self._head.event_id,), "the room changed during a join"
        self._append(join)

    def take_back(self, pdus: Sequence[Pdu]) -> None:
        """Remove the last messages, which were not sent."""
        for pdu in reversed(pdus):
            assert pdu is self._head, "only from the end"
            assert pdu.key is None, "a message"
            del self.events[pdu.event_id], self._places[pdu.event_id]
            self._head = self.events[pdu.prev_events[0]]

    def _send(self, type_: str, sender: str, content: Mapping[str, Any], state_key: str | None = None) -> Pdu:
        signer = self._signers[domain(sender) or ""]
        pdu = build(self._template(type_, sender, content, state_key), self.version, signer)
        assert isinstance(pdu, Pdu), f"an event of the load can be built: {pdu}"
        self._append(pdu)
        return pdu

    def _template(self, type_: str, sender: str, content: Mapping[str, Any], state_key: str | None) -> Template:
        head = self._head
        parts: dict[str, Any] = {"room_id": self.room_id, "state_key": state_key}
        if head is not None:
            parts |= {"prev_events": [head.event_id], "prev_depths": [head.depth]}
        template = Template(type_, sender, content, self._now, **parts)
        rests_on = [self.state[key].event_id for key in auth_event_keys(template, self.version) if key in self.state]
        return Template(type_, sender, content, self._now, **parts, auth_events=rests_on)

    def _append(self, pdu: Pdu) -> None:
        place = len(self.events)
        self.events[pdu.event_id] = self._head = pdu
        self._places[pdu.event_id] = place
        self._ancestors[pdu.event_id] = GraphEntry(pdu.event_id, pdu.depth, pdu.prev_events)
        if pdu.key is not None:
            self.state[pdu.key] = pdu
            self._changes.append(place)
            self._changed.append(pdu)

    # -- requests about it --

    def state_before(self, event_id: EventId) -> dict[StateKey, Pdu]:
        """Return the state before an event."""
        until = bisect_left(self._changes, self._places[event_id])
        return {pdu.key: pdu for pdu in self._changed[:until] if pdu.key is not None}

    def auth_chain(self, pdus: Iterable[Pdu]) -> list[Pdu]:
        """Return the auth chain of these events, without the events."""
        behind = {event_id for pdu in pdus for event_id in pdu.auth_events}
        return [self.events[one] for one in reachable(behind, lambda one: self.events[one].auth_events)]

    def send_join(self, join: Pdu, *, omit_members: bool) -> dict[str, Any]:
        """Return the response to `send_join`, with partial state if that is requested and smaller."""
        state = self.state_before(join.event_id)
        short = omit_members and send_join_response.may_omit_members(state)
        given = send_join_response.without_members(state, join.sender) if short else list(state.values())
        servers = {domain(key[1]) or "" for key in state if key[0] == "m.room.member"}
        chain = self.auth_chain([join, *given])
        return send_join_response.build_response(join, given, chain, omit_members=short, servers=servers)

    def missing_events(self, earliest: Collection[EventId], latest: Sequence[EventId], limit: int) -> list[Pdu]:
        """Return the missing events, oldest first."""
        found = event_graph.walk_missing_events(latest, earliest, self._ancestors, limit=limit).found
        return [self.events[event_id] for event_id in found]

    def backfill(self, start: Sequence[EventId], limit: int) -> list[Pdu]:
        """Return the events and those before them, newest first."""
        return [self.events[one] for one in event_graph.walk_backwards(start, self._ancestors, limit).found]
