"""What agents say they can do."""

from typing import Any

import pytest

from bridge.agents.agent import (
    MAX_CAPABILITIES,
    MAX_CAPABILITY_LENGTH,
    InvalidCapabilities,
    missing_capabilities,
    parse_capabilities,
)


def test_each_is_kept_once_in_its_order() -> None:
    """Upper and lower case are the same name; the first spelling stays."""
    assert parse_capabilities(["coding", "Review", "review", "coding", "runtime:kimi"]) == (
        "coding",
        "Review",
        "runtime:kimi",
    )
    assert parse_capabilities([]) == ()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "list"),
        ("coding", "list"),
        ({"coding": True}, "list"),
        (["coding", 3], "string"),
        ([""], "characters"),
        (["x" * (MAX_CAPABILITY_LENGTH + 1)], "characters"),
        ([f"c{number}" for number in range(MAX_CAPABILITIES + 1)], "at most"),
        (["a\0b"], "printable"),
        (["a\nb"], "printable"),
        (["\ud800"], "printable"),
        (["\u202ecoding"], "printable"),
        ([" coding"], "space"),
    ],
)
def test_what_strangers_say_is_looked_at(said: Any, reason: str) -> None:
    """Number, length and characters are bounded: it is stored, and people read it."""
    refused = parse_capabilities(said)
    assert isinstance(refused, InvalidCapabilities)
    assert reason in refused.reason


def test_as_many_and_as_long_as_allowed() -> None:
    """The bounds themselves are within."""
    said = [f"{number:0{MAX_CAPABILITY_LENGTH}}" for number in range(MAX_CAPABILITIES)]
    assert parse_capabilities(said) == tuple(said)


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        ([], ()),
        (["coding"], ()),
        (["CODING", "review"], ()),
        (["coding", "test"], ("test",)),
        (["runtime:*"], ()),
        (["runtime:?"], ("runtime:?",)),
        (["cod"], ("cod",)),
        (["*"], ()),
    ],
)
def test_what_is_wanted_and_not_there(wanted: list[str], left: tuple[str, ...]) -> None:
    """Whole names, whatever their case; stars and question marks in what is wanted."""
    assert missing_capabilities(("Coding", "review", "runtime:kimi"), wanted) == left


def test_who_can_nothing_has_nothing() -> None:
    """Not even for a star."""
    assert missing_capabilities((), ["*"]) == ("*",)
