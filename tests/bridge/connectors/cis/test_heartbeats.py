"""The content of heartbeat EDUs."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.agents.agent import WIRE_STATUSES, AgentStatus
from bridge.agents.updates import AgentHeartbeat, NodeHeartbeat
from bridge.connectors.cis import heartbeats
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.peers.peer import PeerProfile
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.event_builders import heartbeat
from tests.bridge.connectors.cis.samples import HOSTILE

NODE = "kitchen.local"
SAID_AT = 1_770_552_000_250
SAID: dict[str, Any] = {
    "event_type": "io.cis.agent.heartbeat",
    "node_id": NODE,
    "timestamp": "2026-02-08T12:00:00.250Z",
}
IDS = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=5)


def test_a_heartbeat_lists_all_agents() -> None:
    """By status."""
    statuses = {"b": AgentStatus.IDLE, "c": AgentStatus.BUSY, "a": AgentStatus.IDLE}
    said = heartbeats.edu_content(NodeHeartbeat(NODE, SAID_AT, statuses))
    assert said == {**SAID, "agents": {"idle": ["a", "b"], "busy": ["c"]}}
    assert heartbeats.read_edu(said, NODE) == NodeHeartbeat(NODE, SAID_AT, statuses)


@given(st.dictionaries(IDS, st.sampled_from(sorted(WIRE_STATUSES)), max_size=10) | st.none())
def test_a_heartbeat_survives_a_round_trip(statuses: dict[str, AgentStatus] | None) -> None:
    """With any agent ids. Without a list it covers the same agents as before. The EDU is canonical JSON."""
    said = json.loads(encode(heartbeats.edu_content(NodeHeartbeat(NODE, SAID_AT, statuses))))
    assert heartbeats.read_edu(said, NODE) == NodeHeartbeat(NODE, SAID_AT, statuses)


def test_many_agents() -> None:
    """Ten thousand take a few hundred kilobytes. A list that is too long for one EDU is left out."""
    many = {f"worker-{number}": AgentStatus.IDLE for number in range(10_000)}
    said = heartbeats.edu_content(NodeHeartbeat(NODE, SAID_AT, many))
    assert len(encode(said)) < 200_000
    assert heartbeats.read_edu(said, NODE) == NodeHeartbeat(NODE, SAID_AT, many)
    long = {f"{number:0255}": AgentStatus.IDLE for number in range(33_000)}
    assert heartbeats.edu_content(NodeHeartbeat(NODE, SAID_AT, long)) == SAID


@pytest.mark.parametrize("profile", PeerProfile)
def test_the_heartbeat_of_one_agent(profile: PeerProfile) -> None:
    """As in the specification, in both shapes, as an EDU or as an event."""
    event = heartbeat()
    expected = AgentHeartbeat(AgentAddress("worker-1", NODE), AgentStatus.IDLE, 1_770_552_000_000)
    assert heartbeats.of_event(event) == expected
    said = content.render(event, profile)
    assert heartbeats.read_edu(said, NODE) == expected
    assert heartbeats.read_edu(said, "living.local") == Forbidden("The node_id does not name the peer that sent this.")
    assert heartbeats.read_edu({"agent_id": "worker-1"}, NODE) == InvalidPayload("node_id", "is missing")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"event_type": "io.cis.agent.registered"}, "event_type"),
        ({"timestamp": None}, "timestamp"),
        ({"timestamp": "noon"}, "timestamp"),
        ({"timestamp": 1}, "timestamp"),
        ({"agents": ["a"]}, "agents"),
        ({"agents": "a"}, "agents"),
    ],
)
def test_a_malformed_heartbeat(change: dict[str, Any], field: str) -> None:
    """The refusal names the field."""
    refused = heartbeats.read_edu({**SAID, **change}, NODE)
    assert isinstance(refused, InvalidPayload)
    assert refused.field == field


def test_a_heartbeat_of_another_node_is_refused() -> None:
    """A server cannot keep the agents of another one online."""
    for origin in ("living.local", "KITCHEN.local"):
        assert isinstance(heartbeats.read_edu(SAID, origin), Forbidden)
    assert isinstance(heartbeats.read_edu({**SAID, "node_id": None}, NODE), Forbidden)


def test_malformed_entries_are_skipped() -> None:
    """The others count. The first status counts for an agent that is listed twice."""
    agents = {
        "idle": ["a", 1, None, "", "b@c", "\0", "\ud800", "x" * 256, ["d"]],
        "sleeping": ["e"],
        "initial": ["f"],
        "busy": ["a", "g"],
        "error": "hij",
    }
    expected = {"a": AgentStatus.IDLE, "g": AgentStatus.BUSY}
    assert heartbeats.read_edu({**SAID, "agents": agents}, NODE) == NodeHeartbeat(NODE, SAID_AT, expected)


@given(st.dictionaries(st.sampled_from([*SAID, "agents", "agent_id", "payload", "status"]), HOSTILE, max_size=4))
def test_any_content_is_read_or_refused(changes: dict[str, Any]) -> None:
    """Without an exception."""
    heartbeats.read_edu({**SAID, **changes}, NODE)
    heartbeats.read_edu(changes, NODE)
