"""Values that a peer might send."""

from typing import Any

from hypothesis import strategies as st

HOSTILE_TEXT = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(
    ["", "\0", "\ud800", "a@b", "@", "worker-1@kitchen.local", "x" * 300, "2026-02-08T10:30:00Z", "idle", "claude"]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.integers(-(10**400), 10**400) | st.floats() | HOSTILE_TEXT
HOSTILE: st.SearchStrategy[Any] = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE_TEXT, inner, max_size=3), max_leaves=8
)
"""Whatever a parser of JSON could give, and more."""

HONEST_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
HONEST: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | HONEST_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HONEST_TEXT, inner, max_size=3),
    max_leaves=8,
)
"""What may stand in an event."""


def nested(depth: int, innermost: Any = None) -> Any:
    """Return this many nested objects and arrays."""
    value = innermost
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value
