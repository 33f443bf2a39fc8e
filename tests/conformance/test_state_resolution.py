"""ruma's scenarios of state resolution: each resolved event by event, batch by batch, and all at once."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from federation.events import EventId, Pdu, StateKey, view
from federation.matrix import canonical_json
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.state_resolution.resolve import Resolution, resolve

VECTORS = Path(__file__).parent / "vectors" / "state_resolution"
SCENARIOS = json.loads((VECTORS / "scenarios.json").read_text())["scenarios"]
BATCHES = [scenario for scenario in SCENARIOS if "batches" in scenario]
STATES = [scenario for scenario in SCENARIOS if "states" in scenario]

State = dict[StateKey, EventId]


def load(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((VECTORS / name).read_text())
    return loaded


def symbolic(event: dict[str, Any], version: RoomVersion) -> Pdu:
    """The fixtures name events by symbols, not by hashes."""
    event = {"depth": 1, **event}
    event_id = event.pop("event_id")
    return view(event, canonical_json.encode(event), event_id, version)


def version_of(events: Iterable[dict[str, Any]], default: str = "11") -> RoomVersion:
    create = next(event for event in events if event["type"] == "m.room.create")
    return ROOM_VERSIONS[create["content"].get("room_version", default)]


def expected(scenario: dict[str, Any]) -> State:
    return {(event["type"], event["state_key"]): event["event_id"] for event in load(scenario["expected"])}


class Room:
    """A room that is told of events and knows the state at its ends."""

    def __init__(self, version: RoomVersion) -> None:
        self.version = version
        self.events: dict[EventId, Pdu] = {}
        self.state_after: dict[EventId, State] = {}

    def resolved(self, event_ids: Iterable[EventId]) -> State:
        sets = [self.state_after[event_id] for event_id in event_ids]
        if not sets:
            return {}
        resolution = resolve(self.version, sets, self.events)
        assert isinstance(resolution, Resolution)
        return dict(resolution.state)

    def receive(self, pdu: Pdu) -> None:
        """The state after an event is that before it, and itself."""
        self.events[pdu.event_id] = pdu
        assert pdu.key is not None
        self.state_after[pdu.event_id] = {**self.resolved(pdu.prev_events), pdu.key: pdu.event_id}

    def ends(self, among: Sequence[Pdu]) -> list[EventId]:
        followed = {prev for pdu in among for prev in pdu.prev_events}
        return [pdu.event_id for pdu in among if pdu.event_id not in followed]


def in_order(pdus: Iterable[Pdu]) -> Iterator[Pdu]:
    """As the files have them, but none before those that it follows."""
    seen: set[EventId] = set()
    waiting = list(pdus)
    known = {pdu.event_id for pdu in waiting}
    while waiting:
        ready = [pdu for pdu in waiting if seen.issuperset(known.intersection(pdu.prev_events))]
        assert ready, "the scenario has a cycle"
        yield from ready
        seen.update(pdu.event_id for pdu in ready)
        waiting = [pdu for pdu in waiting if pdu.event_id not in seen]


@pytest.mark.parametrize("scenario", BATCHES, ids=lambda scenario: scenario["name"])
def test_three_ways_lead_to_one_state(scenario: dict[str, Any]) -> None:
    """Resolved after every event, after every batch, and once at the end: the same state, and the expected
    one."""
    batches = [load(name) for name in scenario["batches"]]
    version = version_of(event for batch in batches for event in batch)
    pdus = [[symbolic(event, version) for event in batch] for batch in batches]
    everything = list(in_order(pdu for batch in pdus for pdu in batch))
    want = expected(scenario)

    # Event by event: a new end of the room is merged into the state as soon as it is there.
    room, state = Room(version), State()
    for pdu in everything:
        room.receive(pdu)
        ends = room.ends(list(room.events.values()))
        state = room.resolved(ends)
    assert state == want

    # Batch by batch.
    room, done = Room(version), list[Pdu]()
    for batch in pdus:
        for pdu in in_order(batch):
            room.receive(pdu)
            done.append(pdu)
        state = room.resolved(room.ends(done))
    assert state == want

    # All at once.
    room = Room(version)
    for pdu in everything:
        room.receive(pdu)
    assert room.resolved(room.ends(everything)) == want
    assert room.resolved(reversed(room.ends(everything))) == want


@pytest.mark.parametrize("scenario", STATES, ids=lambda scenario: scenario["name"])
def test_resolving_given_states(scenario: dict[str, Any]) -> None:
    """MSC4297's two problems: version 2 loses state, version 2.1 does not."""
    version = ROOM_VERSIONS[scenario["room_version"]]
    pdus = [symbolic(event, version) for name in scenario["events"] for event in load(name)]
    events = {pdu.event_id: pdu for pdu in pdus}
    states = [
        {events[event_id].key or ("", ""): event_id for event_id in json.loads((VECTORS / name).read_text())}
        for name in scenario["states"]
    ]
    for order in (states, states[::-1], [*states, states[0]]):
        resolution = resolve(version, order, events)
        assert isinstance(resolution, Resolution)
        assert resolution.state == expected(scenario)
