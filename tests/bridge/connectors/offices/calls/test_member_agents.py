"""What the routing table is to contain about members of offices."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.updates import Registration, StatusUpdate, Unregistration
from bridge.connectors.offices.calls.member_agents import (
    LocalMember,
    RoutingChanges,
    reset_to_idle,
    routing_changes,
    unregister_all,
    why_reserved,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.office_room import member_address

BOSS = AgentAddress("a/boss", "here")
HANDS = AgentAddress("a/hands", "here")
MEMBERS = {
    BOSS: LocalMember(Member("1", AGENT, "boss", "a"), reads_tasks=True),
    HANDS: LocalMember(Member("2", COMPUTER, "hands", "a"), tools=("add", "Add", "sub", " odd", "")),
}


def agent(address: AgentAddress = BOSS, **changed: Any) -> Agent:
    capabilities = ("task_execution",) if address == BOSS else ("add", "sub")
    known = Agent(
        address.agent_id, address.node_id, "offices", "a2c-smcp", capabilities, AgentStatus.IDLE, None, 5, 5, None
    )
    return known._replace(**changed)


def test_new_members_are_registered() -> None:
    """An Agent that accepts tasks with that capability, a Computer with its tools, each once."""
    changes = routing_changes(MEMBERS, [], {}, 10)
    assert changes.updates == (
        Registration(BOSS, "offices", "a2c-smcp", ("task_execution",), 10),
        Registration(HANDS, "offices", "a2c-smcp", ("add", "sub"), 10),
    )
    assert LocalMember(Member("1", AGENT, "boss", "a")).capabilities == ()
    many = LocalMember(Member("2", COMPUTER, "hands", "a"), tools=tuple(f"t{n}" for n in range(100)))
    assert len(many.capabilities) == 64


def test_unchanged_members_need_no_update() -> None:
    """A member's status is not compared, but its tools are."""
    known = {BOSS: agent(status=AgentStatus.BUSY), HANDS: agent(HANDS)}
    assert routing_changes(MEMBERS, [], known, 10) == RoutingChanges(())
    known[HANDS] = agent(HANDS, capabilities=())
    [update] = routing_changes(MEMBERS, [], known, 10).updates
    assert update == Registration(HANDS, "offices", "a2c-smcp", ("add", "sub"), 10)


def test_an_update_is_newer_than_the_existing_entry() -> None:
    """Whatever the clock shows."""
    [update] = routing_changes({BOSS: MEMBERS[BOSS]}, [], {BOSS: agent(sent_at=50, gone_at=50)}, 10).updates
    assert update.sent_at == 51
    [update] = routing_changes({}, [BOSS], {BOSS: agent(sent_at=50)}, 10).updates
    assert update == Unregistration(BOSS, "it has left its office", 50)


def test_a_member_is_unregistered_once() -> None:
    """Unless it has reconnected. Entries of other connectors are left alone."""
    assert routing_changes(MEMBERS, [BOSS], {BOSS: agent(), HANDS: agent(HANDS)}, 10) == RoutingChanges(())
    for known in (None, agent(gone_at=7), agent(connector="attached")):
        assert routing_changes({}, [BOSS], {BOSS: known}, 10) == RoutingChanges(())


def test_an_agent_of_another_connector_keeps_its_address() -> None:
    """While it is present."""
    members = {BOSS: MEMBERS[BOSS]}
    other = agent(connector="attached")
    assert routing_changes(members, [], {BOSS: other}, 10) == RoutingChanges((), (BOSS,))
    assert len(routing_changes(members, [], {BOSS: other._replace(gone_at=7)}, 10).updates) == 1


def test_members_of_a_killed_process() -> None:
    """They become idle; on a node that no longer serves offices they are unregistered."""
    agents = [
        agent(status=AgentStatus.BUSY, sent_at=50),
        agent(HANDS),
        agent(connector="command", status=AgentStatus.BUSY),
        agent(gone_at=7, status=AgentStatus.SHUTDOWN),
    ]
    assert reset_to_idle(agents, 10) == [StatusUpdate(BOSS, AgentStatus.IDLE, None, 51)]
    assert [one.address for one in unregister_all(agents, 10) if isinstance(one, Unregistration)] == [BOSS, HANDS]


@pytest.mark.parametrize(
    ("agent_id", "is_reserved"),
    [("a/boss", True), ("a=2fb/boss", True), ("boss", False), ("a/b/c", False), ("/boss", False), ("a/", False)],
)
def test_addresses_of_members_are_reserved(agent_id: str, is_reserved: bool) -> None:
    sentence = why_reserved(AgentAddress(agent_id, "here"))
    assert (sentence is not None) is is_reserved
    if sentence is not None:
        assert "in the office a" in sentence


def test_every_member_has_a_reserved_address() -> None:
    for office_id, name in (("a", "b"), ("kitchen@there.test", "x/y"), ("ü", "=")):
        assert why_reserved(member_address(office_id, name, "here")) is not None
