"""What the room graph offers, and what it has to be given. Each `Protocol` says no more than is used."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from federation.key_needs import KeyNeed
from federation.new_event import NewEvent as NewEvent
from federation.pdu import EventId, Pdu, StateKey
from federation.receipt import Receipt
from federation.room_version import RoomVersion
from federation.signatures import VerifyKey
from storage.database import Connection
from storage.incoming_transactions import Answered
from storage.saying import Offered, Queued

State = Mapping[StateKey, EventId]


# -- what it offers --


@dataclass(frozen=True, slots=True)
class RoomView:
    """Where a room stood when it was looked at."""

    room_id: str
    version: RoomVersion
    generation: int
    forward_extremities: tuple[EventId, ...]
    state_group: int
    """The current state."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An accepted event of the timeline, as the hook on commit is told of it; known before, if somebody has
    missed it."""

    pdu: Pdu
    version: RoomVersion
    origin: str | None
    """The server that sent it to us; None for our own."""
    destinations: frozenset[str]
    """Servers, without ourselves, that must be told by us: those joined in the state before the event, if it
    is ours or was handed to us for the room; or one that has come since and missed it. Empty for what others
    send round themselves."""


Results = Mapping[EventId, Receipt]
CommitHook = Callable[[Connection, Sequence[Committed]], Awaitable[None]]
"""Writes in the transaction that commits the events. Not called when none is accepted."""


class OwnQueue(Protocol):
    """`federation.service.outbox.Outbox`: gets what this server says, where one statement writes all of it.
    The hook is not called then."""

    def to_queue(self, committed: Sequence[Committed]) -> list[tuple[str, EventId]]:
        """Servers and the events that they are to get, in the order of the events."""
        ...

    def offered(self, destinations: Collection[str]) -> Mapping[str, Offered]:
        """Of those servers to which nothing is under way, a transaction with all that is queued for it
        now."""
        ...

    def queued(self, committed: Sequence[Committed], places: Sequence[Queued]) -> None:
        """That is committed, and these are their places in the queues."""
        ...


InCommit = Callable[[Connection, Results], Awaitable[None]]
AnsweredWith = Callable[[Results], Answered]
"""What is to be written with that."""
InCreation = Callable[[Connection, str], Awaitable[None]]
"""Given the id of the room that is being made, writes in the transaction that makes it. It may refuse."""


class Rooms(Protocol):
    """The one writer of every room. What asks for something impossible is a `MatrixError`."""

    # -- writing --

    async def receive(
        self,
        origin: str,
        events: Sequence[Any],
        *,
        in_commit: InCommit | None = None,
        answered: AnsweredWith | None = None,
    ) -> Results:
        """The PDUs of a transaction, of known rooms, each with what became of it. Committed when it returns;
        `in_commit` writes in the same transaction. With `answered`, where one statement is enough for all,
        this is written by that one, and `in_commit` is not called."""
        ...

    async def send_event(
        self,
        room_id: str,
        type_: str,
        content: Mapping[str, Any],
        sender: str,
        state_key: str | None = None,
        *,
        redacts: EventId | None = None,
        ts: int | None = None,
        transaction_id: str | None = None,
    ) -> Pdu:
        """Make an event of ours at the head of the room. 403 when the rules do not allow it. `ts` is the time
        that it bears. What a sender has sent into a room under a transaction id is not made again."""
        ...

    async def prepare_event(self, room_id: str, event: NewEvent) -> dict[str, Any]:
        """The template of an event at the head of the room, for `make_join` and its like. 403 when the rules
        would not allow it."""
        ...

    async def create_room(
        self,
        version: RoomVersion,
        events: Sequence[NewEvent],
        *,
        room_id: str | None = None,
        in_commit: InCreation | None = None,
    ) -> list[Pdu]:
        """Make a room of these events, m.room.create first. All or nothing. `room_id` is given where the
        version does not make it from the create event."""
        ...

    async def import_room(
        self,
        origin: str,
        version: RoomVersion,
        *,
        state: Iterable[Any],
        auth_chain: Iterable[Any],
        event: Any,
    ) -> Pdu:
        """Take in the room that another server let us join: the state before the join, its auth chain, and
        the join. `PeerError` when what it gave is no room."""
        ...

    async def accept_membership(self, origin: str, room_id: str, event: Any) -> Pdu:
        """A join, leave or knock that another server hands us for the room. It is sent on to all others. 403
        when it is not accepted; what the endpoint itself has to check comes before."""
        ...

    # -- reading --

    async def room(self, room_id: str) -> RoomView | None: ...

    async def events(self, event_ids: Iterable[EventId]) -> dict[EventId, Pdu]:
        """Those that are known, rejected ones among them."""
        ...

    async def state_at(self, event_id: EventId) -> State | None:
        """The state before an event; None where it is unknown."""
        ...

    async def state_after(self, event_id: EventId) -> State | None: ...

    async def current_state(self, room_id: str) -> State: ...

    async def current_events(self, room_id: str, keys: Iterable[StateKey]) -> dict[StateKey, Pdu]:
        """Those of the entries that the current state has."""
        ...

    async def auth_chain(self, event_ids: Iterable[EventId]) -> set[EventId]:
        """What lies behind events of one room."""
        ...

    async def missing_events(
        self,
        room_id: str,
        *,
        earliest: Collection[EventId],
        latest: Sequence[EventId],
        limit: int,
        min_depth: int,
    ) -> list[Pdu]:
        """What lies between, oldest first."""
        ...

    async def backfill(self, room_id: str, event_ids: Sequence[EventId], limit: int) -> list[Pdu]:
        """The events and what lies before them, newest first."""
        ...

    async def servers_in_room(self, room_id: str) -> frozenset[str]: ...

    async def is_server_in_room(self, room_id: str, server: str) -> bool: ...

    async def shown_to_server(self, server: str, pdus: Sequence[Pdu]) -> list[Pdu]:
        """The events as that server may see them: redacted where the history is hidden from it."""
        ...

    async def shown_to_people(self, pdus: Sequence[Pdu]) -> list[Pdu]:
        """The events with the redactions applied that have been asked for and are allowed."""
        ...


# -- what it has to be given --


class Keys(Protocol):
    """`federation.service.key_ring.KeyRing`."""

    async def keys_for(self, needs: Iterable[KeyNeed]) -> Mapping[str, Mapping[str, VerifyKey]]: ...


@dataclass(frozen=True, slots=True)
class StateIds:
    pdu_ids: tuple[EventId, ...]
    auth_chain_ids: tuple[EventId, ...]


@dataclass(frozen=True, slots=True)
class RemoteState:
    pdus: Sequence[Any] = field(repr=False)
    auth_chain: Sequence[Any] = field(repr=False)


class PolicySignatures(Protocol):
    """Asks policy servers."""

    async def sign(self, server: str, event: Mapping[str, Any]) -> Any:
        """The signatures that a policy server makes, unchecked. `PeerRefused` if it makes none."""
        ...


class PeerEvents(PolicySignatures, Protocol):
    """Asks another server for events. Each raises `PeerError`; nothing of an answer has been checked."""

    async def missing_events(
        self,
        peer: str,
        room_id: str,
        *,
        earliest: Collection[EventId],
        latest: Collection[EventId],
        limit: int,
        min_depth: int,
    ) -> Sequence[Any]: ...

    async def state_ids(self, peer: str, room_id: str, event_id: EventId) -> StateIds: ...

    async def state(self, peer: str, room_id: str, event_id: EventId) -> RemoteState: ...

    async def event(self, peer: str, event_id: EventId) -> Any: ...

    async def event_auth(self, peer: str, room_id: str, event_id: EventId) -> Sequence[Any]: ...

    async def backfill(
        self, peer: str, room_id: str, event_ids: Collection[EventId], limit: int
    ) -> Sequence[Any]: ...


class RoomObserver(Protocol):
    """Implemented by whoever counts. Called from the event loop; it must return at once."""

    def event_received(self, verdict: str) -> None:
        """`accepted`, `soft_failed`, `rejected` or `dropped`."""

    def state_resolved(self, seconds: float) -> None: ...

    def event_sent(self) -> None: ...
