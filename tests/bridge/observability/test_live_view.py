"""Live views."""

from bridge.observability.live_view import LiveCollection, LiveMapping


def test_mapping_is_current() -> None:
    """At each access."""
    holds = {"a": 1}
    view: LiveMapping[str, int] = LiveMapping(lambda: holds)
    assert (view["a"], len(view), "b" in view, view.get("b")) == (1, 1, False, None)
    holds = {"b": 2, "c": 3}
    assert (list(view), list(view.values()), "a" in view) == (["b", "c"], [2, 3], False)
    assert (dict(view.items()), set(view.keys())) == (holds, {"b", "c"})
    assert view == holds


def test_collection_is_current() -> None:
    """At each access."""
    holds = [1, 2]
    view = LiveCollection(lambda: holds)
    assert (2 in view, len(view), list(view)) == (True, 2, [1, 2])
    holds = [3]
    assert (2 in view, len(view), list(view)) == (False, 1, [3])


def test_iteration_sees_one_state() -> None:
    """Despite changes meanwhile."""
    holds = {"a": 1, "b": 2}
    numbers = [1, 2]
    view: LiveMapping[str, int] = LiveMapping(lambda: holds)
    all_ = (iter(view.items()), iter(view.values()), iter(view), iter(LiveCollection(lambda: numbers)))
    first = [next(one) for one in all_]
    holds, numbers = {"z": 26}, []
    assert first == [("a", 1), 1, "a", 1]
    assert [list(one) for one in all_] == [[("b", 2)], [2], ["b"], [2]]
