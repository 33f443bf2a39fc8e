"""Memberships in offices: the tables of the specification, row by row."""

from typing import get_args

import pytest

from bridge.connectors.offices.protocol import office as module
from bridge.connectors.offices.protocol.office import (
    AGENT,
    COMPUTER,
    Disconnect,
    Effects,
    EnterEffect,
    Input,
    Join,
    Leave,
    LeaveEffect,
    Member,
    OfficeMembership,
    Rejection,
    State,
)


def step(offices: OfficeMembership, sid: str, event: Input) -> Rejection | Effects:
    effects = offices.decide(sid, event)
    if not isinstance(effects, Rejection):
        offices.apply(sid, effects)
    return effects


def joined(*members: tuple[str, str, str, str], maximum: int = 200) -> OfficeMembership:
    """Each member as connection id, role, name and office id."""
    offices = OfficeMembership(maximum)
    for sid, role, name, office_id in members:
        assert not isinstance(step(offices, sid, Join(role, name, office_id)), Rejection)
    return offices


def offices_by_sid(offices: OfficeMembership) -> dict[str, str]:
    return {member.sid: member.office_id for member in offices.all()}


def test_the_transition_table_is_total() -> None:
    """It has an entry for each state and input."""
    expected = {(state, event) for state in State for event in get_args(Input)}
    assert set(module._TRANSITIONS) == expected


def test_an_agent_enters_an_office_that_has_none() -> None:
    """The office may be empty or have Computers."""
    offices = joined(("c1", COMPUTER, "hands", "a"))
    boss = Member("a1", AGENT, "boss", "a")
    assert step(offices, "a1", Join(AGENT, "boss", "a")) == (EnterEffect(boss),)
    assert offices.agent("a") == boss == offices.find("a", "boss")
    assert [member.name for member in offices.members("a")] == ["hands", "boss"]


def test_a_second_agent_is_refused() -> None:
    """It is not bound to a role or an office by the refused join."""
    offices = joined(("a1", AGENT, "boss", "a"))
    before = offices_by_sid(offices)
    assert step(offices, "a2", Join(AGENT, "rival", "a")) == Rejection("Room already has an agent")
    assert offices_by_sid(offices) == before
    assert offices.state("a2") is State.NEW
    assert offices.find("a", "rival") is None
    assert not isinstance(step(offices, "a2", Join(COMPUTER, "rival", "a")), Rejection)


def test_an_agent_can_repeat_its_join() -> None:
    """Without effect. A join with another name, office or role is refused, and the Agent stays where it
    is."""
    offices = joined(("a1", AGENT, "boss", "a"))
    assert step(offices, "a1", Join(AGENT, "boss", "a")) == ()
    for other in (Join(AGENT, "chief", "a"), Join(AGENT, "boss", "b"), Join(COMPUTER, "boss", "a")):
        assert isinstance(step(offices, "a1", other), Rejection)
    assert offices_by_sid(offices) == {"a1": "a"}


def test_computers_are_limited_only_by_the_maximum() -> None:
    offices = joined(*((f"c{n}", COMPUTER, f"hands {n}", "a") for n in range(3)), maximum=3)
    assert step(offices, "c3", Join(COMPUTER, "more", "a")) == Rejection("Room is full")
    assert not isinstance(step(offices, "c3", Join(COMPUTER, "more", "b")), Rejection)


def test_a_computer_changes_its_office() -> None:
    """It leaves the old office before it enters the new one."""
    offices = joined(("c1", COMPUTER, "hands", "a"), ("c2", COMPUTER, "eyes", "a"))
    effects = step(offices, "c1", Join(COMPUTER, "hands", "b"))
    assert effects == (
        LeaveEffect(Member("c1", COMPUTER, "hands", "a")),
        EnterEffect(Member("c1", COMPUTER, "hands", "b")),
    )
    assert offices_by_sid(offices) == {"c1": "b", "c2": "a"}
    assert offices.find("a", "hands") is None
    assert step(offices, "c1", Join(COMPUTER, "hands", "b")) == ()
    assert isinstance(step(offices, "c1", Join(COMPUTER, "fists", "b")), Rejection)
    assert isinstance(step(offices, "c1", Join(AGENT, "hands", "b")), Rejection)


def test_a_refused_change_leaves_the_computer_where_it_was() -> None:
    """All checks run before the old office is left."""
    offices = joined(("c1", COMPUTER, "hands", "a"), ("c2", COMPUTER, "hands", "b"))
    assert isinstance(step(offices, "c1", Join(COMPUTER, "hands", "b")), Rejection)
    assert offices_by_sid(offices) == {"c1": "a", "c2": "b"}


def test_names_are_unique_within_an_office_across_roles() -> None:
    """The same name can be used in another office."""
    offices = joined(("c1", COMPUTER, "hands", "a"))
    for role in (AGENT, COMPUTER):
        assert step(offices, "x", Join(role, "hands", "a")) == Rejection("Name 'hands' is taken in the office")
    assert not isinstance(step(offices, "x", Join(COMPUTER, "hands", "b")), Rejection)


@pytest.mark.parametrize("role", [AGENT, COMPUTER])
def test_a_member_that_leaves_keeps_its_role(role: str) -> None:
    """A connection cannot leave an office of which it is no member."""
    offices = joined(("x", role, "x", "a"))
    for wrong in ("b", ""):
        assert step(offices, "x", Leave(wrong)) == Rejection("Not in office")
    assert step(offices, "x", Leave("a")) == (LeaveEffect(Member("x", role, "x", "a")),)
    assert step(offices, "x", Leave("a")) == Rejection("Not in office")
    assert offices.members("a") == ()
    other = COMPUTER if role == AGENT else AGENT
    assert isinstance(step(offices, "x", Join(other, "x", "a")), Rejection)
    assert not isinstance(step(offices, "x", Join(role, "x", "b")), Rejection)
    assert step(offices, "new", Leave("a")) == Rejection("Not in office")


@pytest.mark.parametrize("role", [AGENT, COMPUTER])
def test_a_disconnect_removes_the_member(role: str) -> None:
    """Its seat and its name are free, and its role is dropped."""
    offices = joined(("x", role, "x", "a"))
    assert step(offices, "x", Disconnect()) == (LeaveEffect(Member("x", role, "x", "a")),)
    offices.forget("x")
    assert offices.state("x") is State.NEW
    assert step(offices, "x", Disconnect()) == ()
    assert offices.agent("a") is None
    assert not isinstance(step(offices, "y", Join(role, "x", "a")), Rejection)
