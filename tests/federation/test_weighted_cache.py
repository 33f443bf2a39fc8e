"""A cache by weight."""

from federation.weighted_cache import WeightedCache


def test_what_was_not_used_for_the_longest_goes_first() -> None:
    """As much of it as the new entry weighs."""
    cache: WeightedCache[str, int] = WeightedCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1
    cache.put("c", 3, 5)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, None, 3)
    assert (cache.weight, len(cache)) == (9, 2)


def test_what_is_too_heavy_is_not_kept() -> None:
    """And pushes nothing else out, but for what it was to replace."""
    cache: WeightedCache[str, int] = WeightedCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 11)
    assert (cache.get("a"), cache.get("b")) == (1, None)
    cache.put("a", 3, 11)
    assert (cache.get("a"), cache.weight) == (None, 0)


def test_replacing_and_forgetting_give_the_weight_back() -> None:
    """Otherwise the cache would shrink for ever."""
    cache: WeightedCache[str, int] = WeightedCache(10)
    cache.put("a", 1, 4)
    cache.put("a", 2, 6)
    assert (cache.get("a"), cache.weight) == (2, 6)
    cache.forget("a")
    cache.forget("a")
    assert (cache.get("a"), cache.weight) == (None, 0)
