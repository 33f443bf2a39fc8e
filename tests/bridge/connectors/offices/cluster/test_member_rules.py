"""The members of an office according to the records."""

from bridge.connectors.offices.cluster.member_rules import (
    RecordedMember,
    active_members,
    can_restore,
    displaced_members,
    members_of_other_processes,
    processes_of,
)
from bridge.connectors.offices.federated.shared_room import RemoteMember
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion

V04 = ProtocolVersion(0, 4, 0)
BOSS = RecordedMember("p1", "s1", AGENT, "boss", V04)
HANDS = RecordedMember("p2", "s2", COMPUTER, "hands", V04, 7)
CHIEF = RecordedMember("p2", "s3", AGENT, "chief", None)


def test_only_the_first_agent_is_active() -> None:
    """In the order of joining."""
    assert active_members([BOSS, HANDS, CHIEF]) == (BOSS, HANDS)
    assert active_members([CHIEF, HANDS, BOSS]) == (CHIEF, HANDS)
    assert active_members([]) == ()


def test_members_of_other_processes() -> None:
    """By connection id. A record without one is from before connections were recorded, so its process does
    not serve offices together with others."""
    there = [BOSS, HANDS, RecordedMember("p3", "", COMPUTER, "old", None)]
    assert members_of_other_processes(there, "p1").by_user == {"s2": RemoteMember("s2", COMPUTER, "hands", V04, "", 7)}
    assert set(members_of_other_processes(there, "p2").by_user) == {"s1"}
    assert set(members_of_other_processes(there, "p9").by_user) == {"s1", "s2"}
    assert processes_of(there) == {"p1", "p2", "p3"}


def test_a_member_without_a_record_is_displaced() -> None:
    """A record of another process, or of another connection with the same name, does not count."""
    boss, hands = Member("s1", AGENT, "boss", "o"), Member("s7", COMPUTER, "hands", "o")
    assert displaced_members([BOSS, HANDS], [boss, hands], "p1") == [hands]
    assert displaced_members([BOSS], [boss], "p2") == [boss]
    assert displaced_members([], [boss], "p1") == [boss]


def test_a_displaced_member_can_be_restored_if_its_place_is_free() -> None:
    """Its name, and for an Agent the seat."""
    boss, hands = Member("s7", AGENT, "boss", "o"), Member("s8", COMPUTER, "hands", "o")
    assert can_restore([], boss)
    assert can_restore([HANDS], boss)
    assert not can_restore([CHIEF], boss)
    assert not can_restore([RecordedMember("p2", "s9", COMPUTER, "boss", None)], boss)
    assert can_restore([CHIEF], hands)
    assert not can_restore([HANDS], hands)
