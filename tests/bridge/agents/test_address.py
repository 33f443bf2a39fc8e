"""Addresses of agents: `agent-id@node-id`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress, BareAgentId, InvalidAddress, parse_target

PARTS = st.text(st.characters(exclude_characters="@\0", exclude_categories=["Cs"]), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("worker-1@kitchen.local", ("worker-1", "kitchen.local")),
        ("coordinator@living.local", ("coordinator", "living.local")),
        ("review-bot@cloud-seed.cis.dev", ("review-bot", "cloud-seed.cis.dev")),
        ("a@host:7676", ("a", "host:7676")),
        ("Müller 3:b/c#d@Küche", ("Müller 3:b/c#d", "Küche")),
        ("a\n@b", ("a\n", "b")),
        (f"{'a' * 255}@{'b' * 255}", ("a" * 255, "b" * 255)),
    ],
)
def test_addresses(text: str, parts: tuple[str, str]) -> None:
    """The specification's examples, and what it does not forbid."""
    assert AgentAddress.parse(text) == AgentAddress(*parts)
    assert str(AgentAddress(*parts)) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is an agent id, an @ and a node id"),
        ("worker-1", "is an agent id, an @ and a node id"),
        ("@", "An agent's id must not be empty."),
        ("@kitchen.local", "An agent's id must not be empty."),
        ("@worker-1:kitchen.local", "An agent's id must not be empty."),
        ("worker-1@", "A node's id must not be empty."),
        ("a@b@c", "A node's id must not contain an @."),
        ("a@@", "A node's id must not contain an @."),
        ("a\0@b", "An agent's id must not contain NUL."),
        ("a@b\0", "A node's id must not contain NUL."),
        ("\ud800@b", "An agent's id must be valid Unicode."),
        ("ä" * 128 + "@b", "An agent's id must have at most 255 bytes."),
        ("a@" + "b" * 256, "A node's id must have at most 255 bytes."),
    ],
)
def test_an_invalid_address_has_a_reason(text: str, reason: str) -> None:
    """Exactly one `@`, both parts non-empty, and nothing that cannot be sent or stored."""
    refused = AgentAddress.parse(text)
    assert isinstance(refused, InvalidAddress)
    assert reason in refused.reason


def test_parts_are_checked_like_an_address() -> None:
    """An `@` in an agent id would name another node."""
    assert AgentAddress.of("worker-1", "kitchen.local") == AgentAddress("worker-1", "kitchen.local")
    assert isinstance(AgentAddress.of("worker-1@living.local", "kitchen.local"), InvalidAddress)


def test_a_target_may_be_a_bare_id() -> None:
    """The routing table finds the node."""
    assert parse_target("worker-1") == BareAgentId("worker-1")
    assert parse_target("worker-1@kitchen.local") == AgentAddress("worker-1", "kitchen.local")
    assert parse_target("worker-1@") == InvalidAddress("A node's id must not be empty.")
    assert parse_target("") == InvalidAddress("An agent's id must not be empty.")


@given(PARTS, PARTS)
def test_an_address_can_be_parsed_again(agent_id: str, node_id: str) -> None:
    """Whatever its parts contain."""
    address = AgentAddress.of(agent_id, node_id)
    assert isinstance(address, AgentAddress)
    assert AgentAddress.parse(str(address)) == address


@given(st.text(st.characters(), max_size=300))
def test_any_text_can_be_parsed(text: str) -> None:
    """Nothing is raised, and no two texts are the same address."""
    address = AgentAddress.parse(text)
    assert str(address) == text if isinstance(address, AgentAddress) else address.reason.endswith(".")
