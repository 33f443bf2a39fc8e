"""Who is in an office by which process."""

from bridge.connectors.offices.cluster.member_rules import (
    Seated,
    companions,
    is_free,
    processes,
    seated,
    unseated,
)
from bridge.connectors.offices.federated.shared_room import Present
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion

V04 = ProtocolVersion(0, 4, 0)
BOSS = Seated("p1", "s1", AGENT, "boss", V04)
HANDS = Seated("p2", "s2", COMPUTER, "hands", V04, 7)
CHIEF = Seated("p2", "s3", AGENT, "chief", None)


def test_one_agent_sits() -> None:
    """The one that came first."""
    assert seated([BOSS, HANDS, CHIEF]) == (BOSS, HANDS)
    assert seated([CHIEF, HANDS, BOSS]) == (CHIEF, HANDS)
    assert seated([]) == ()


def test_companions_are_those_of_other_processes() -> None:
    """By their connections. Who has none that is known came before any was written down, and is no process's
    that serves with others."""
    there = [BOSS, HANDS, Seated("p3", "", COMPUTER, "old", None)]
    assert companions(there, "p1").members == {"s2": Present("s2", COMPUTER, "hands", V04, "", 7)}
    assert set(companions(there, "p2").members) == {"s1"}
    assert set(companions(there, "p9").members) == {"s1", "s2"}
    assert processes(there) == {"p1", "p2", "p3"}


def test_who_has_lost_its_place() -> None:
    """Neither is the connection of another process one of ours, nor one that has the same name now."""
    boss, hands = Member("s1", AGENT, "boss", "o"), Member("s7", COMPUTER, "hands", "o")
    assert unseated([BOSS, HANDS], [boss, hands], "p1") == [hands]
    assert unseated([BOSS], [boss], "p2") == [boss]
    assert unseated([], [boss], "p1") == [boss]


def test_who_can_have_it_again() -> None:
    """Unless its name is taken by now, or its seat."""
    boss, hands = Member("s7", AGENT, "boss", "o"), Member("s8", COMPUTER, "hands", "o")
    assert is_free([], boss)
    assert is_free([HANDS], boss)
    assert not is_free([CHIEF], boss)
    assert not is_free([Seated("p2", "s9", COMPUTER, "boss", None)], boss)
    assert is_free([CHIEF], hands)
    assert not is_free([HANDS], hands)
