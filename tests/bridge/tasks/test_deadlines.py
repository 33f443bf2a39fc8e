"""Many deadlines, most of which are moved."""

import random

from bridge.tasks.deadlines import Deadlines


def test_deadlines_expire_in_their_order() -> None:
    """None expires early."""
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next() is None
    for name, at in (("b", 20), ("a", 10), ("c", 20)):
        deadlines.set(name, at)
    assert deadlines.next() == 10
    assert deadlines.take_due(9) == []
    assert deadlines.take_due(20) == ["a", "b", "c"]
    assert deadlines.take_due(99) == []
    assert len(deadlines) == 0


def test_a_moved_deadline_expires_once() -> None:
    """It may be moved later, earlier and back again."""
    deadlines: Deadlines[str] = Deadlines()
    for at in (10, 30, 20, 25):
        deadlines.set("a", at)
    assert deadlines.next() == 25
    assert deadlines.take_due(24) == []
    assert deadlines.take_due(30) == ["a"]
    assert deadlines.take_due(99) == []


def test_a_removed_deadline_does_not_expire() -> None:
    """Unless it is set again."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("b", 15)
    deadlines.remove("a")
    deadlines.remove("a")
    assert deadlines.next() == 15
    assert ("a" in deadlines, "b" in deadlines, list(deadlines)) == (False, True, ["b"])
    deadlines.set("a", 5)
    assert deadlines.take_due(99) == ["a", "b"]


def test_against_a_model() -> None:
    """Any sequence of operations has the results of a sorted list, and the heap does not grow without
    bound."""
    draw = random.Random(7)
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    now = 0
    for _ in range(20_000):
        key, action = draw.randrange(30), draw.random()
        if action < 0.7:
            model[key] = now + draw.randrange(100)
            deadlines.set(key, model[key])
        elif action < 0.85:
            model.pop(key, None)
            deadlines.remove(key)
        else:
            now += draw.randrange(20)
            due = deadlines.take_due(now)
            assert [model[one] for one in due] == sorted(at for at in model.values() if at <= now)
            for one in due:
                del model[one]
        assert deadlines.next() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
        assert len(deadlines._heap) <= 2 * len(model) + 65
