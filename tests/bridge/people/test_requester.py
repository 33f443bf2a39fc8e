"""The addresses under which people request tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress, InvalidAddress
from bridge.people.requester import person_of, requester_address
from federation.matrix.identifiers import is_user_id

HERE = "here.test"


@pytest.mark.parametrize(
    ("user", "agent_id"),
    [
        ("@alice:example.org", "alice:example.org"),
        ("@Alice:example.org:8448", "Alice:example.org:8448"),
        ("@a=b:example.org", "a=3db:example.org"),
        ("@a@b:example.org", "a=40b:example.org"),
        ("@=40:example.org", "=3d40:example.org"),
        ("@:example.org", ":example.org"),
        ("@müller:example.org", "müller:example.org"),
    ],
)
def test_a_person_has_an_address_of_this_node(user: str, agent_id: str) -> None:
    """Historical user ids too."""
    address = requester_address(user, HERE)
    assert address == AgentAddress(agent_id, HERE)
    assert person_of(address, HERE) == user


@given(st.text(st.characters(exclude_characters=":\0", exclude_categories=["Cs"]), max_size=70))
def test_an_address_is_converted_back(localpart: str) -> None:
    """Two people never have the same address."""
    user = f"@{localpart}:example.org"
    if not is_user_id(user):
        return
    address = requester_address(user, HERE)
    if isinstance(address, AgentAddress):
        assert address.agent_id.count("@") == 0
        assert person_of(address, HERE) == user


@given(st.text(max_size=40))
def test_an_address_belongs_to_at_most_one_person(agent_id: str) -> None:
    """Other escapes belong to nobody."""
    address = AgentAddress.of(f"{agent_id}:example.org", HERE)
    if isinstance(address, AgentAddress):
        user = person_of(address, HERE)
        assert user is None or requester_address(user, HERE) == address


def test_a_user_id_may_be_too_long() -> None:
    """Escaping makes it longer."""
    assert isinstance(requester_address(f"@{'@' * 240}:a.org", HERE), InvalidAddress)


@pytest.mark.parametrize("agent_id", ["worker-1", "a=zz:example.org", "a:not a name", "a=:b.org"])
def test_other_addresses_are_not_people(agent_id: str) -> None:
    """Neither are addresses of other nodes."""
    assert person_of(AgentAddress(agent_id, HERE), HERE) is None
    assert person_of(AgentAddress("alice:example.org", "there.test"), HERE) is None
