"""Members of offices as agents of the node."""

from typing import Any

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.updates import Registration, StatusUpdate, Unregistration
from bridge.connectors.offices.calls.member_agents import (
    Seat,
    Told,
    all_gone,
    idle_again,
    reserved,
    what_to_tell,
)
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.rooms.office_room import member_address

BOSS = AgentAddress("a/boss", "here")
HANDS = AgentAddress("a/hands", "here")
SEATS = {
    BOSS: Seat(Member("1", AGENT, "boss", "a"), reads_tasks=True),
    HANDS: Seat(Member("2", COMPUTER, "hands", "a"), tools=("add", "Add", "sub", " odd", "")),
}


def agent(address: AgentAddress = BOSS, **changed: Any) -> Agent:
    capabilities = ("task_execution",) if address == BOSS else ("add", "sub")
    known = Agent(
        address.agent_id,
        address.node_id,
        "offices",
        "a2c-smcp",
        capabilities,
        AgentStatus.IDLE,
        None,
        5,
        5,
        None,
    )
    return known._replace(**changed)


def test_who_has_come_is_told_of() -> None:
    """An Agent that reads tasks with that, and a Computer with its tools, each once."""
    told = what_to_tell(SEATS, [], {}, 10)
    assert told.news == (
        Registration(BOSS, "offices", "a2c-smcp", ("task_execution",), 10),
        Registration(HANDS, "offices", "a2c-smcp", ("add", "sub"), 10),
    )
    assert Seat(Member("1", AGENT, "boss", "a")).capabilities == ()
    many = Seat(Member("2", COMPUTER, "hands", "a"), tools=tuple(f"t{n}" for n in range(100)))
    assert len(many.capabilities) == 64


def test_nothing_new_is_not_told() -> None:
    """What it does meanwhile is no news either; other tools are."""
    known = {BOSS: agent(status=AgentStatus.BUSY), HANDS: agent(HANDS)}
    assert what_to_tell(SEATS, [], known, 10) == Told(())
    known[HANDS] = agent(HANDS, capabilities=())
    [news] = what_to_tell(SEATS, [], known, 10).news
    assert news == Registration(HANDS, "offices", "a2c-smcp", ("add", "sub"), 10)


def test_it_is_newer_than_what_was_said() -> None:
    """Whatever the clock says."""
    [news] = what_to_tell({BOSS: SEATS[BOSS]}, [], {BOSS: agent(sent_at=50, gone_at=50)}, 10).news
    assert news.sent_at == 51
    [news] = what_to_tell({}, [BOSS], {BOSS: agent(sent_at=50)}, 10).news
    assert news == Unregistration(BOSS, "it has left its office", 50)


def test_who_is_gone_is_told_gone_once() -> None:
    """Unless it is back already; what another connector has there is left alone."""
    assert what_to_tell(SEATS, [BOSS], {BOSS: agent(), HANDS: agent(HANDS)}, 10) == Told(())
    for known in (None, agent(gone_at=7), agent(connector="attached")):
        assert what_to_tell({}, [BOSS], {BOSS: known}, 10) == Told(())


def test_another_agent_stays_what_it_is() -> None:
    """As long as it is there."""
    seats = {BOSS: SEATS[BOSS]}
    other = agent(connector="attached")
    assert what_to_tell(seats, [], {BOSS: other}, 10) == Told((), (BOSS,))
    assert len(what_to_tell(seats, [], {BOSS: other._replace(gone_at=7)}, 10).news) == 1


def test_after_a_kill_nobody_is_at_work() -> None:
    """Nor, where there are no offices any more, in one."""
    agents = [
        agent(status=AgentStatus.BUSY, sent_at=50),
        agent(HANDS),
        agent(connector="command", status=AgentStatus.BUSY),
        agent(gone_at=7, status=AgentStatus.SHUTDOWN),
    ]
    assert idle_again(agents, 10) == [StatusUpdate(BOSS, AgentStatus.IDLE, None, 51)]
    assert [news.address for news in all_gone(agents, 10) if isinstance(news, Unregistration)] == [
        BOSS,
        HANDS,
    ]


@pytest.mark.parametrize(
    ("agent_id", "is_reserved"),
    [
        ("a/boss", True),
        ("a=2fb/boss", True),
        ("boss", False),
        ("a/b/c", False),
        ("/boss", False),
        ("a/", False),
    ],
)
def test_members_alone_are_called_like_members(agent_id: str, is_reserved: bool) -> None:
    sentence = reserved(AgentAddress(agent_id, "here"))
    assert (sentence is not None) is is_reserved
    if sentence is not None:
        assert "in the office a" in sentence


def test_each_member_has_an_address_that_is_kept_for_it() -> None:
    for office_id, name in (("a", "b"), ("kitchen@there.test", "x/y"), ("ü", "=")):
        assert reserved(member_address(office_id, name, "here")) is not None
