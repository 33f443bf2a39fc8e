"""When rooms of peers are joined."""

from bridge.connectors.cis.service.discovery import RetrySchedule


def contacts(**wanted: list[str]) -> RetrySchedule[str]:
    return RetrySchedule(wanted, 0, retry=10, longest=100)


def test_all_are_tried_at_once_one_room_of_a_peer_after_the_other() -> None:
    """A peer that is slow keeps nobody else waiting."""
    one = contacts(a=["1", "2"], b=["3"])
    assert one.deadline() == 0
    assert one.due(0) == [("a", "1"), ("b", "3")]
    assert one.due(0) == []
    assert one.deadline() is None
    one.done("a", "1")
    assert one.due(0) == [("a", "2")]
    one.done("a", "2")
    one.done("b", "3")
    assert one.deadline() is None
    assert not one.is_pending("a", "1")


def test_who_does_not_answer_is_asked_after_ever_longer_pauses() -> None:
    """Up to the longest."""
    one = contacts(a=["1"])
    now, pauses = 0, []
    for _ in range(6):
        assert one.due(now) == [("a", "1")]
        one.failed("a", "1", now)
        deadline = one.deadline()
        assert deadline is not None
        assert one.due(deadline - 1) == []
        pauses.append(deadline - now)
        now = deadline
    assert pauses == [10, 20, 40, 80, 100, 100]
    assert one.is_pending("a", "1")


def test_a_sign_of_life_makes_it_at_once() -> None:
    """But not more often than the shortest pause, whatever the peer does; others are not concerned."""
    one = contacts(a=["1"], b=["2"])
    for now in (0, 10, 30):
        one.due(now)
        one.failed("a", "1", now)
        one.failed("b", "2", now)
    one.peer_active("a", 35)
    assert one.due(39) == []
    assert one.due(40) == [("a", "1")]
    one.failed("a", "1", 40)
    assert one.deadline() == 70
    one.peer_active("a", 60)
    assert one.due(60) == [("a", "1")]
    one.peer_active("unheard of", 60)
    slow: RetrySchedule[str] = RetrySchedule({"a": ["1"]}, 0, retry=60_000, longest=60_000)
    slow.due(0)
    slow.failed("a", "1", 5)
    slow.peer_active("a", 10)
    assert slow.deadline() == 200


def test_a_room_that_was_lost_is_wanted_again() -> None:
    """After a pause, so that two who do not agree do not go on for ever at full speed."""
    one = contacts(a=["1"])
    one.due(0)
    one.done("a", "1")
    one.add("a", "1", 5)
    assert one.due(14) == []
    assert one.due(15) == [("a", "1")]
    one.add("a", "1", 15)
    assert one.due(99) == []
    one.done("a", "1")
    one.failed("a", "1", 15)
    assert one.deadline() is None
    one.add("unheard of", "1", 5)


def test_peers_come_and_go() -> None:
    """What is wanted of a new one is due at once. Of one that has gone nothing is, however that ends which
    was under way."""
    one = contacts(a=["1"])
    one.replace("b", ["2", "3"], 5)
    assert one.due(5) == [("a", "1"), ("b", "2")]
    one.remove("b")
    one.remove("unheard of")
    one.failed("b", "2", 6)
    one.done("b", "3")
    one.peer_active("b", 7)
    one.add("b", "2", 8)
    assert one.deadline() is None
    assert not one.is_pending("b", "3")
    one.replace("b", ["4"], 9)
    assert one.due(9) == [("b", "4")]


def test_what_is_wanted_of_a_peer_changes() -> None:
    """Only what was named last is tried, and no pause counts that was made before."""
    one = contacts(a=["1", "2"])
    one.due(0)
    one.failed("a", "1", 0)
    one.replace("a", ["2", "3"], 1)
    assert one.due(1) == [("a", "2")]
    one.done("a", "2")
    assert one.due(1) == [("a", "3")]
    assert not one.is_pending("a", "1")
