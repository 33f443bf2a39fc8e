"""Views of what changes."""

from bridge.observability.live_view import LiveCollection, LiveMapping


def test_a_mapping_says_what_holds() -> None:
    """At each question; nothing has to be fetched again."""
    holds = {"a": 1}
    view: LiveMapping[str, int] = LiveMapping(lambda: holds)
    assert (view["a"], len(view), "b" in view, view.get("b")) == (1, 1, False, None)
    holds = {"b": 2, "c": 3}
    assert (list(view), list(view.values()), "a" in view) == (["b", "c"], [2, 3], False)
    assert (dict(view.items()), set(view.keys())) == (holds, {"b", "c"})
    assert view == holds


def test_a_collection_does_too() -> None:
    """Of what cannot be named."""
    holds = [1, 2]
    view = LiveCollection(lambda: holds)
    assert (2 in view, len(view), list(view)) == (True, 2, [1, 2])
    holds = [3]
    assert (2 in view, len(view), list(view)) == (False, 1, [3])


def test_who_goes_through_it_sees_one_state() -> None:
    """Also when something is added or taken out between two of them."""
    holds = {"a": 1, "b": 2}
    numbers = [1, 2]
    view: LiveMapping[str, int] = LiveMapping(lambda: holds)
    all_ = (iter(view.items()), iter(view.values()), iter(view), iter(LiveCollection(lambda: numbers)))
    first = [next(one) for one in all_]
    holds, numbers = {"z": 26}, []
    assert first == [("a", 1), 1, "a", 1]
    assert [list(one) for one in all_] == [[("b", 2)], [2], ["b"], [2]]
