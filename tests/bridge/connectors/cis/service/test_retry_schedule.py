"""The schedule of joins and invites."""

from bridge.connectors.cis.service.discovery import RetrySchedule


def schedule(**wanted: list[str]) -> RetrySchedule[str]:
    return RetrySchedule(wanted, 0, retry=10, longest=100)


def test_peers_are_tried_concurrently_and_their_rooms_in_sequence() -> None:
    """A slow peer delays no other peer."""
    one = schedule(a=["1", "2"], b=["3"])
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


def test_the_delay_doubles_after_each_failure() -> None:
    """Up to the longest one."""
    one = schedule(a=["1"])
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


def test_an_active_peer_is_tried_at_once() -> None:
    """But not more often than the shortest delay allows; other peers are not affected."""
    one = schedule(a=["1"], b=["2"])
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


def test_a_room_that_was_left_is_joined_again() -> None:
    """After a delay, so that two nodes that disagree do not loop at full speed."""
    one = schedule(a=["1"])
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


def test_peers_are_added_and_removed() -> None:
    """The actions of a new peer are due at once. A removed peer has none, and the result of a running one is
    ignored."""
    one = schedule(a=["1"])
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


def test_the_actions_of_a_peer_are_replaced() -> None:
    """Only the new ones are attempted, without the delays of the old ones."""
    one = schedule(a=["1", "2"])
    one.due(0)
    one.failed("a", "1", 0)
    one.replace("a", ["2", "3"], 1)
    assert one.due(1) == [("a", "2")]
    one.done("a", "2")
    assert one.due(1) == [("a", "3")]
    assert not one.is_pending("a", "1")
