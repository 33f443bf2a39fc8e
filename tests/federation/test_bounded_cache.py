"""What peers name must not grow for ever."""

from hypothesis import given
from hypothesis import strategies as st

from federation.bounded_cache import BoundedCache


def test_what_was_not_used_for_longest_goes_first() -> None:
    """Looking is a use."""
    cache: BoundedCache[str, int] = BoundedCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    cache.forget("a")
    cache.forget("never there")
    assert list(cache) == ["c"]


@given(st.lists(st.tuples(st.sampled_from(["put", "get", "forget"]), st.integers(0, 5))))
def test_it_never_holds_more_than_it_may(steps: list[tuple[str, int]]) -> None:
    """And never something else than was put there last."""
    cache: BoundedCache[int, int] = BoundedCache(3)
    last: dict[int, int] = {}
    for at, (step, key) in enumerate(steps, 1):
        if step == "put":
            cache.put(key, at)
            last[key] = at
        elif step == "get":
            assert cache.get(key) in {None, last.get(key)}
        else:
            cache.forget(key)
            assert cache.get(key) is None
        assert len(cache) <= 3
