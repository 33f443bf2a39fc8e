"""The tasks of one attached program."""

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


def test_tasks_are_offered_in_order_while_there_is_room() -> None:
    """An offered task takes up room like a begun one."""
    made = attachment("a", "b", "c", parallel=2)
    assert [made.take(0.0), made.take(0.0), made.take(0.0)] == [work("a"), work("b"), None]
    made.begin("a")
    assert made.take(0.0) is None
    made.finish("a", 1)
    assert made.take(0.0) == work("c")


def test_pending_tasks() -> None:
    """An offered task is not pending until the offer expires."""
    made = attachment("a", "b", parallel=2)
    assert made.has_pending()
    made.take(0.0)
    made.take(0.0)
    assert not made.has_pending()
    made.withdraw_offer("a")
    assert made.has_pending()
    made.withdraw("a")
    assert not made.has_pending()


def test_a_task_that_is_delivered_twice_is_added_once() -> None:
    """Also after it was answered."""
    made = attachment("a")
    assert not made.deliver(work("a"))
    made.take(0.0)
    made.begin("a")
    assert not made.deliver(work("a"))
    made.finish("a", 1)
    assert not made.deliver(work("a"))
    assert made.take(0.0) is None


def test_a_task_that_is_not_begun_in_time_is_offered_again() -> None:
    """As another attempt; messages about the earlier attempt are ignored."""
    made = attachment("a")
    made.take(0.0)
    assert made.deadline() == LASTS
    assert made.phase_of("a", 1, LASTS - 1) is Phase.OFFERED
    assert made.phase_of("a", 1, LASTS) is None
    assert made.take(LASTS) == work("a", 2)
    assert made.phase_of("a", 1, LASTS) is None
    assert made.phase_of("a", 2, LASTS) is Phase.OFFERED


def test_a_begun_task_is_not_offered_again() -> None:
    """However long it takes."""
    made = attachment("a")
    made.take(0.0)
    made.begin("a")
    assert made.deadline() is None
    assert made.take(1000.0) is None
    assert made.phase_of("a", 1, 1000.0) is Phase.BEGUN
    made.withdraw_offer("a")
    assert made.phase_of("a", 1, 1000.0) is Phase.BEGUN


def test_a_withdrawn_offer_is_repeated_at_once() -> None:
    """Its recipient had disconnected."""
    made = attachment("a")
    made.take(0.0)
    made.withdraw_offer("a")
    made.withdraw_offer("b")
    assert made.take(0.0) == work("a", 2)


def test_messages_about_a_task_that_was_not_offered_are_ignored() -> None:
    """A pending task, and one that the session never had."""
    made = attachment("a")
    assert (made.phase_of("a", 1, 0.0), made.phase_of("b", 1, 0.0)) == (None, None)


def test_an_answer_may_be_repeated() -> None:
    """By the same attempt, if the program missed the response. After many other answers it is forgotten."""
    made = attachment("a")
    made.take(0.0)
    made.begin("a")
    made.finish("a", 1)
    assert (made.phase_of("a", 1, 0.0), made.phase_of("a", 2, 0.0)) == (Phase.FINISHED, None)
    for number in range(MAX_FINISHED):
        made.finish(str(number), 1)
    assert made.phase_of("a", 1, 0.0) is None


def test_cancelled_tasks_are_reported() -> None:
    """To a program that still works on them."""
    made = attachment("a", "b", parallel=2)
    made.take(0.0)
    made.begin("a")
    assert made.withdraw("a")
    assert not made.withdraw("a")
    made.begin("a")
    assert made.cancelled_of(["a", "b", "c"]) == ["a", "c"]
    assert made.phase_of("a", 1, 0.0) is None


def test_begun_tasks_and_others() -> None:
    """The next session gets those that are not begun; a program that comes back continues those that it had
    begun."""
    made = attachment("a", "b", "c", parallel=2)
    made.take(0.0)
    made.begin("a")
    made.take(0.0)
    made.resume(work("d", 3))
    assert made.begun() == ["a", "d"]
    assert made.not_begun() == [work("b"), work("c")]
    assert made.phase_of("d", 3, 0.0) is Phase.BEGUN
