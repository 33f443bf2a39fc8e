"""Who is in which office: the tables of the specification, row by row."""

from typing import get_args

import pytest

from bridge.connectors.offices.protocol import office as module
from bridge.connectors.offices.protocol.office import (
    AGENT,
    COMPUTER,
    Disconnect,
    Effects,
    Entered,
    Input,
    Join,
    Leave,
    Left,
    Member,
    Offices,
    Refused,
    State,
)


def do(offices: Offices, sid: str, happened: Input) -> Refused | Effects:
    effects = offices.decide(sid, happened)
    if not isinstance(effects, Refused):
        offices.apply(sid, effects)
    return effects


def joined(*members: tuple[str, str, str, str], most: int = 200) -> Offices:
    """Each with its connection, role, name and office."""
    offices = Offices(most)
    for sid, role, name, office_id in members:
        assert not isinstance(do(offices, sid, Join(role, name, office_id)), Refused)
    return offices


def where(offices: Offices) -> dict[str, str]:
    return {member.sid: member.office_id for member in offices.all()}


def test_every_state_knows_every_input() -> None:
    """The table has no hole."""
    wanted = {(state, happened) for state in State for happened in get_args(Input)}
    assert set(module._TRANSITIONS) == wanted


def test_an_agent_enters_an_office_that_has_none() -> None:
    """Empty, or with Computers alone; the others are told."""
    offices = joined(("c1", COMPUTER, "hands", "a"))
    boss = Member("a1", AGENT, "boss", "a")
    assert do(offices, "a1", Join(AGENT, "boss", "a")) == (Entered(boss),)
    assert offices.agent("a") == boss == offices.named("a", "boss")
    assert [member.name for member in offices.members("a")] == ["hands", "boss"]


def test_a_second_agent_is_refused() -> None:
    """And nothing of it stays: it may join another office, or as another role."""
    offices = joined(("a1", AGENT, "boss", "a"))
    before = where(offices)
    assert do(offices, "a2", Join(AGENT, "rival", "a")) == Refused("Room already has an agent")
    assert where(offices) == before
    assert offices.state("a2") is State.NEW
    assert offices.named("a", "rival") is None
    assert not isinstance(do(offices, "a2", Join(COMPUTER, "rival", "a")), Refused)


def test_the_same_agent_joins_again() -> None:
    """Nobody is told; under another name, or elsewhere, it is refused, and stays where it is."""
    offices = joined(("a1", AGENT, "boss", "a"))
    assert do(offices, "a1", Join(AGENT, "boss", "a")) == ()
    for other in (Join(AGENT, "chief", "a"), Join(AGENT, "boss", "b"), Join(COMPUTER, "boss", "a")):
        assert isinstance(do(offices, "a1", other), Refused)
    assert where(offices) == {"a1": "a"}


def test_computers_are_any_number_up_to_the_limit() -> None:
    offices = joined(*((f"c{n}", COMPUTER, f"hands {n}", "a") for n in range(3)), most=3)
    assert do(offices, "c3", Join(COMPUTER, "more", "a")) == Refused("Room is full")
    assert not isinstance(do(offices, "c3", Join(COMPUTER, "more", "b")), Refused)


def test_a_computer_moves() -> None:
    """It leaves the old office first."""
    offices = joined(("c1", COMPUTER, "hands", "a"), ("c2", COMPUTER, "eyes", "a"))
    effects = do(offices, "c1", Join(COMPUTER, "hands", "b"))
    assert effects == (
        Left(Member("c1", COMPUTER, "hands", "a")),
        Entered(Member("c1", COMPUTER, "hands", "b")),
    )
    assert where(offices) == {"c1": "b", "c2": "a"}
    assert offices.named("a", "hands") is None
    assert do(offices, "c1", Join(COMPUTER, "hands", "b")) == ()
    assert isinstance(do(offices, "c1", Join(COMPUTER, "fists", "b")), Refused)
    assert isinstance(do(offices, "c1", Join(AGENT, "hands", "b")), Refused)


def test_a_refused_move_leaves_it_where_it_was() -> None:
    """Everything is checked before anything is left."""
    offices = joined(("c1", COMPUTER, "hands", "a"), ("c2", COMPUTER, "hands", "b"))
    assert isinstance(do(offices, "c1", Join(COMPUTER, "hands", "b")), Refused)
    assert where(offices) == {"c1": "a", "c2": "b"}


def test_names_are_unique_in_an_office_and_across_roles() -> None:
    """And free in every other one."""
    offices = joined(("c1", COMPUTER, "hands", "a"))
    for role in (AGENT, COMPUTER):
        assert do(offices, "x", Join(role, "hands", "a")) == Refused("Name 'hands' is taken in the office")
    assert not isinstance(do(offices, "x", Join(COMPUTER, "hands", "b")), Refused)


@pytest.mark.parametrize("role", [AGENT, COMPUTER])
def test_who_leaves_is_gone(role: str) -> None:
    """And keeps its role. What one is not in one cannot leave."""
    offices = joined(("x", role, "x", "a"))
    for wrong in ("b", ""):
        assert do(offices, "x", Leave(wrong)) == Refused("Not in office")
    assert do(offices, "x", Leave("a")) == (Left(Member("x", role, "x", "a")),)
    assert do(offices, "x", Leave("a")) == Refused("Not in office")
    assert offices.members("a") == ()
    other = COMPUTER if role == AGENT else AGENT
    assert isinstance(do(offices, "x", Join(other, "x", "a")), Refused)
    assert not isinstance(do(offices, "x", Join(role, "x", "b")), Refused)
    assert do(offices, "new", Leave("a")) == Refused("Not in office")


@pytest.mark.parametrize("role", [AGENT, COMPUTER])
def test_a_connection_that_ends_leaves(role: str) -> None:
    """Its seat and its name are free, and nothing is remembered of it."""
    offices = joined(("x", role, "x", "a"))
    assert do(offices, "x", Disconnect()) == (Left(Member("x", role, "x", "a")),)
    offices.forget("x")
    assert offices.state("x") is State.NEW
    assert do(offices, "x", Disconnect()) == ()
    assert offices.agent("a") is None
    assert not isinstance(do(offices, "y", Join(role, "x", "a")), Refused)
