"""A cache by weight: what peers send must not grow for ever."""

from federation.caches import WeightedCache


def test_what_was_not_used_for_the_longest_goes_first() -> None:
    """As much of it as the new entry weighs. Looking is a use."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["b"] = "2222"
    assert cache.get("a") == "1111"
    cache["c"] = "33333"
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("1111", None, "33333")
    assert (cache.currsize, len(cache)) == (9, 2)


def test_what_is_too_heavy_is_not_kept() -> None:
    """And pushes nothing else out, but for what it was to replace."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["b"] = "2" * 11
    assert (cache.get("a"), cache.get("b")) == ("1111", None)
    cache["a"] = "3" * 11
    assert (cache.get("a"), cache.currsize) == (None, 0)


def test_replacing_and_forgetting_give_the_weight_back() -> None:
    """Otherwise the cache would shrink for ever."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["a"] = "222222"
    assert (cache.get("a"), cache.currsize) == ("222222", 6)
    cache.pop("a", None)
    cache.pop("a", None)
    assert (cache.get("a"), cache.currsize) == (None, 0)
