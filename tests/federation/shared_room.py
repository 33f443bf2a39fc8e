"""A room on several nodes, and checks that all nodes agree on it."""

from collections.abc import Collection
from dataclasses import dataclass, field

from federation.events import EventId, Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.rooms.ports import State
from tests.federation.far_apart import FarApart
from tests.federation.nodes import Node


@dataclass(frozen=True)
class Known:
    """The data that a node has of a room."""

    verdicts: dict[EventId, str]
    """On each event that has its place."""
    before: dict[EventId, State]
    """The state before it."""
    shown: dict[EventId, Pdu]
    """As people see it."""
    told: list[EventId]
    """What its stream has said is new, in its order."""
    ends: tuple[EventId, ...]
    state: State
    """As it remembers it."""
    written_state: State
    """As it stands in its database for others to read."""


@dataclass
class SharedRoom:
    """Each node has one user with power, whom nobody may moderate, and two others who are moderated."""

    far: FarApart
    room_id: str
    since: set[EventId] = field(default_factory=set)
    """Events from before all were there: who came late knows of them what the state says."""

    @property
    def keepers(self) -> dict[str, str]:
        return {name: f"@alice:{name}" for name in self.far.names}

    @property
    def others(self) -> list[str]:
        return [f"@{who}:{name}" for name in self.far.names for who in ("eve", "fay")]

    async def mark(self) -> None:
        """Send a message and wait until all nodes have it."""
        await self.far.converge(self.room_id, self.keepers)
        for name in self.far.names:
            self.since |= (await known(self.far[name], self.room_id)).verdicts.keys()

    async def check(self) -> dict[str, Known]:
        """Assert that all nodes agree."""
        await self.far.converge(self.room_id, self.keepers)
        of = {name: await known(self.far[name], self.room_id) for name in self.far.names}
        everything = {event_id for one in of.values() for event_id in one.verdicts} - self.since
        refused = {event_id for one in of.values() for event_id in _failed(one, everything)}
        first = of[self.far.names[0]]
        # A redaction that was soft-failed by a node is not applied there.
        unlike = {_redacts(first.shown[event_id]) for event_id in refused}
        for name, one in of.items():
            assert everything <= one.verdicts.keys(), f"{name} lacks events"
            accepted = everything - _failed(one, everything)
            told = [event_id for event_id in one.told if event_id in everything]
            assert len(told) == len(set(told)), f"{name} has told something twice"
            assert set(told) == accepted, f"{name} has told something else than it has accepted"
            for event_id in everything:
                assert one.verdicts[event_id] != "rejected"
                assert one.before[event_id] == first.before[event_id], f"{name} has another state"
                if event_id not in unlike:
                    assert one.shown[event_id].content == first.shown[event_id].content
            assert one.ends == first.ends
            assert one.state == first.state
            assert one.written_state == one.state
            problems = [sentence for sentence, _ in self.far[name].seen.problems]
            assert not any("unexpected error" in sentence for sentence in problems)
        for event_id in refused:
            # Of the keepers' operations only an invite can conflict: with the invited user's own decision.
            pdu = first.shown[event_id]
            assert pdu.sender in self.others or pdu.membership == "invite", pdu
        return of


async def shared_room(far: FarApart, version: str, others: Collection[str] | None = None) -> SharedRoom:
    """Create the room on the first node. `others` are the additional users who join; all by default."""
    first, *rest = far.names
    keeper = f"@alice:{first}"
    room = SharedRoom(far, await far[first].create(version, keeper))
    users = {} if ROOM_VERSIONS[version].creators_have_infinite_power else {keeper: 100}
    levels = {"users": users | {room.keepers[name]: 90 for name in rest}, "invite": 0}
    await far[first].rooms.set_state(room.room_id, keeper, "m.room.power_levels", levels)
    joining = [room.keepers[name] for name in rest] + list(room.others if others is None else others)
    for user in joining:
        await far[user.partition(":")[2]].rooms.join(room.room_id, user, via=[first])
    await room.mark()
    return room


async def known(node: Node, room_id: str) -> Known:
    view = await node.graph.room(room_id)
    assert view is not None, f"{node.name} does not know the room"
    async with node.database.transaction(readonly=True) as connection:
        rows = await connection.fetch(
            "SELECT event_id, verdict FROM events WHERE room_id = $1 AND state_before IS NOT NULL", room_id
        )
        entries = await connection.fetch(
            "SELECT type, state_key, event_id FROM current_state WHERE room_id = $1", room_id
        )
    verdicts = {row["event_id"]: row["verdict"] for row in rows}
    before = {event_id: await node.graph.state_at(event_id) for event_id in verdicts}
    events = await node.graph.events(verdicts)
    stream = [entry for entry in (await node.graph.stream.read(0, 100_000)).entries if entry.event.room_id == room_id]
    return Known(
        verdicts,
        {event_id: state for event_id, state in before.items() if state is not None},
        {pdu.event_id: pdu for pdu in await node.graph.apply_redactions(list(events.values()))},
        [entry.event.event_id for entry in stream if entry.kind == "timeline"],
        view.forward_extremities,
        await node.graph.current_state(room_id),
        {(row["type"], row["state_key"]): row["event_id"] for row in entries},
    )


def _failed(one: Known, everything: set[EventId]) -> set[EventId]:
    return {event_id for event_id in everything if one.verdicts.get(event_id) != "accepted"}


def _redacts(pdu: Pdu) -> object:
    return pdu.content.get("redacts", pdu.event.get("redacts"))
