"""What a program that has attached itself is given."""

from bridge.agents.attached.attachment import MAX_FINISHED, Attachment, Phase
from bridge.agents.work import TaskAssignment
from tests.bridge.agents.agent_tasks import task

LASTS = 10.0


def work(work_id: str, attempt: int = 1) -> TaskAssignment:
    return task(work_id=work_id, attempt=attempt)


def attachment(*work_ids: str, parallel: int = 1) -> Attachment:
    made = Attachment(parallel, LASTS)
    for work_id in work_ids:
        assert made.deliver(work(work_id))
    return made


def test_tasks_are_given_in_their_order_as_many_as_there_is_room_for() -> None:
    """What is offered takes a place like what is begun."""
    made = attachment("a", "b", "c", parallel=2)
    assert [made.take(0.0), made.take(0.0), made.take(0.0)] == [work("a"), work("b"), None]
    made.begin("a")
    assert made.take(0.0) is None
    made.finish("a", 1)
    assert made.take(0.0) == work("c")


def test_whether_something_waits() -> None:
    """What was offered does not, until it is offered again."""
    made = attachment("a", "b", parallel=2)
    assert made.has_pending()
    made.take(0.0)
    made.take(0.0)
    assert not made.has_pending()
    made.withdraw_offer("a")
    assert made.has_pending()
    made.withdraw("a")
    assert not made.has_pending()


def test_one_that_is_brought_twice_is_there_once() -> None:
    """Also when it has been answered already."""
    made = attachment("a")
    assert not made.deliver(work("a"))
    made.take(0.0)
    made.begin("a")
    assert not made.deliver(work("a"))
    made.finish("a", 1)
    assert not made.deliver(work("a"))
    assert made.take(0.0) is None


def test_what_is_not_begun_in_time_is_offered_again() -> None:
    """As another attempt; nothing counts that is said of the one before."""
    made = attachment("a")
    made.take(0.0)
    assert made.deadline() == LASTS
    assert made.phase_of("a", 1, LASTS - 1) is Phase.OFFERED
    assert made.phase_of("a", 1, LASTS) is None
    assert made.take(LASTS) == work("a", 2)
    assert made.phase_of("a", 1, LASTS) is None
    assert made.phase_of("a", 2, LASTS) is Phase.OFFERED


def test_what_is_begun_is_given_to_nobody_else() -> None:
    """However long it takes."""
    made = attachment("a")
    made.take(0.0)
    made.begin("a")
    assert made.deadline() is None
    assert made.take(1000.0) is None
    assert made.phase_of("a", 1, 1000.0) is Phase.BEGUN
    made.withdraw_offer("a")
    assert made.phase_of("a", 1, 1000.0) is Phase.BEGUN


def test_what_has_not_arrived_is_offered_again_at_once() -> None:
    """The one who asked for it was gone."""
    made = attachment("a")
    made.take(0.0)
    made.withdraw_offer("a")
    made.withdraw_offer("b")
    assert made.take(0.0) == work("a", 2)


def test_nothing_can_be_said_of_what_was_not_given() -> None:
    """One that waits, one that never was."""
    made = attachment("a")
    assert (made.phase_of("a", 1, 0.0), made.phase_of("b", 1, 0.0)) == (None, None)


def test_an_answer_may_be_repeated() -> None:
    """By the same attempt; the program did not hear that it was taken. After many others it is forgotten."""
    made = attachment("a")
    made.take(0.0)
    made.begin("a")
    made.finish("a", 1)
    assert (made.phase_of("a", 1, 0.0), made.phase_of("a", 2, 0.0)) == (Phase.FINISHED, None)
    for number in range(MAX_FINISHED):
        made.finish(str(number), 1)
    assert made.phase_of("a", 1, 0.0) is None


def test_what_nobody_wants_any_more_is_told() -> None:
    """To a program that says that it works on it."""
    made = attachment("a", "b", parallel=2)
    made.take(0.0)
    made.begin("a")
    assert made.withdraw("a")
    assert not made.withdraw("a")
    made.begin("a")
    assert made.cancelled_of(["a", "b", "c"]) == ["a", "c"]
    assert made.phase_of("a", 1, 0.0) is None


def test_what_was_begun_and_what_was_not() -> None:
    """The next session gets the latter; what the program had begun before it came back it goes on with."""
    made = attachment("a", "b", "c", parallel=2)
    made.take(0.0)
    made.begin("a")
    made.take(0.0)
    made.resume(work("d", 3))
    assert made.begun() == ["a", "d"]
    assert made.not_begun() == [work("b"), work("c")]
    assert made.phase_of("d", 3, 0.0) is Phase.BEGUN
