"""A cache bounded by the weight of its values."""

from federation.caches import WeightedCache


def test_the_least_recently_used_entries_are_evicted() -> None:
    """As many as the new entry needs. Reading counts as use."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["b"] = "2222"
    assert cache.get("a") == "1111"
    cache["c"] = "33333"
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("1111", None, "33333")
    assert (cache.currsize, len(cache)) == (9, 2)


def test_a_value_that_is_too_heavy_is_not_stored() -> None:
    """It evicts nothing but the value with its key."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["b"] = "2" * 11
    assert (cache.get("a"), cache.get("b")) == ("1111", None)
    cache["a"] = "3" * 11
    assert (cache.get("a"), cache.currsize) == (None, 0)


def test_replacing_and_deleting_release_the_weight() -> None:
    """Otherwise the cache would shrink for ever."""
    cache: WeightedCache[str, str] = WeightedCache(10, len)
    cache["a"] = "1111"
    cache["a"] = "222222"
    assert (cache.get("a"), cache.currsize) == ("222222", 6)
    cache.pop("a", None)
    cache.pop("a", None)
    assert (cache.get("a"), cache.currsize) == (None, 0)
