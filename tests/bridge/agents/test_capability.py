"""Capabilities of agents."""

from typing import Any

import pytest

from bridge.agents.agent import (
    MAX_CAPABILITIES,
    MAX_CAPABILITY_LENGTH,
    InvalidCapabilities,
    missing_capabilities,
    parse_capabilities,
)


def test_duplicates_are_removed() -> None:
    """Without regard to case; the first spelling stays."""
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
def test_capabilities_are_validated(said: Any, reason: str) -> None:
    """Number, length and characters: they are stored and shown."""
    refused = parse_capabilities(said)
    assert isinstance(refused, InvalidCapabilities)
    assert reason in refused.reason


def test_the_limits_are_inclusive() -> None:
    """Of number and length."""
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
def test_missing_capabilities(wanted: list[str], left: tuple[str, ...]) -> None:
    """Whole names without regard to case; stars and question marks in the wanted names."""
    assert missing_capabilities(("Coding", "review", "runtime:kimi"), wanted) == left


def test_an_agent_without_capabilities_matches_nothing() -> None:
    """Not even `*`."""
    assert missing_capabilities((), ["*"]) == ("*",)
