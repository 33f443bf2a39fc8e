"""The contents of third-party lookups."""

import pytest

from appservice.http.endpoints import location, protocol, requested_agent, requested_room, third_party_user
from appservice.registration.namespaces import AgentRoom, Namespaces

OURS = Namespaces("their.server", "kitchen.local", "_agent_")


@pytest.mark.parametrize(
    ("fields", "agent"),
    [
        ({"agent": "worker-1"}, ("worker-1", "kitchen.local")),
        ({"agent": "worker-1", "node": "cellar.local"}, ("worker-1", "cellar.local")),
        ({"agent": "worker-1@cellar.local"}, ("worker-1", "cellar.local")),
        ({}, None),
        ({"agent": ""}, None),
        ({"agent": "@cellar.local"}, None),
        ({"agent": "a@b@c"}, None),
        ({"agent": "a", "node": ""}, None),
        ({"agent": "a\0"}, None),
        ({"agent": "\ud800"}, None),
        ({"agent": "x" * 300}, None),
    ],
)
def test_requested_agent(fields: dict[str, str], agent: tuple[str, str] | None) -> None:
    """By id, by id and node, or by the whole address."""
    assert requested_agent(fields, OURS) == agent


def test_requested_room() -> None:
    """By its namespace."""
    assert requested_room({"namespace": "default"}) == AgentRoom("agents", "default")
    assert requested_room({}) is requested_room({"namespace": "\0"}) is None


def test_users_and_locations() -> None:
    """The names on both sides."""
    assert third_party_user(("w", "cellar.local"), OURS) == {
        "userid": "@_agent_w=40cellar.local:their.server",
        "protocol": "agents",
        "fields": {"agent": "w", "node": "cellar.local"},
    }
    assert third_party_user(("é" * 80, "kitchen.local"), OURS) is None
    assert location(AgentRoom("agents", "default"), OURS) == {
        "alias": "#agents-default:their.server",
        "protocol": "agents",
        "fields": {"namespace": "default"},
    }
    assert location(AgentRoom("agent-broadcast", ""), OURS) is None


def test_protocol_has_all_required_fields() -> None:
    """User fields, location fields, icon, field types, instances; every field has a type."""
    told = protocol(OURS)
    assert {*told["user_fields"], *told["location_fields"]} == set(told["field_types"])
    assert isinstance(told["icon"], str)
    assert all(set(one) == {"regexp", "placeholder"} for one in told["field_types"].values())
    (instance,) = told["instances"]
    assert instance["network_id"] == "kitchen.local"
