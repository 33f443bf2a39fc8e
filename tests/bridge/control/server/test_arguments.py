"""The arguments of commands."""

import pytest

from bridge.control.server.arguments import LONGEST, Arguments
from storage.errors import LocalError


def test_arguments_are_read() -> None:
    """Texts, numbers, flags, and missing arguments."""
    arguments = Arguments({"room": "!a", "key": "", "limit": 7, "raw": True})
    assert arguments.text("room") == "!a"
    assert arguments.optional_text("key") == ""
    assert arguments.optional_text("type") is None
    assert arguments.number("limit", 1, 7) == 7
    assert arguments.number("most", 5, 10) == 5
    assert arguments.flag("raw")
    assert not arguments.flag("all")


@pytest.mark.parametrize("value", [7, ["a"], {}, "a\0b", "\ud800", "x" * (LONGEST + 1), True])
def test_an_invalid_text_is_refused(value: object) -> None:
    """Before it reaches the database."""
    with pytest.raises(LocalError, match="room is not a valid name or id"):
        Arguments({"room": value}).optional_text("room")


@pytest.mark.parametrize("value", [0, -1, 8, 7.0, "7", True, 10**30])
def test_an_invalid_number_is_refused(value: object) -> None:
    """True is not the number 1."""
    with pytest.raises(LocalError, match="from 1 to 7"):
        Arguments({"limit": value}).number("limit", 1, 7)


@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_argument_is_an_error(value: object) -> None:
    """The message names it."""
    with pytest.raises(LocalError, match="needs room"):
        Arguments({"room": value}).text("room")


def test_only_true_sets_a_flag() -> None:
    """No other value does."""
    assert not Arguments({"all": "true"}).flag("all")


def test_a_list_of_texts_is_read() -> None:
    """A missing list is empty."""
    arguments = Arguments({"types": ["task", "cis"]})
    assert arguments.texts("types") == ["task", "cis"]
    assert arguments.texts("nodes") == []


@pytest.mark.parametrize("value", ["task", 7, {}, [7], [""], ["a\0"], [["a"]], ["a"] * 21])
def test_an_invalid_list_of_texts_is_refused(value: object) -> None:
    """So are too many texts, and empty ones."""
    with pytest.raises(LocalError, match="types"):
        Arguments({"types": value}).texts("types")


def test_the_maximum_length_can_be_changed() -> None:
    """A prompt is longer than an identifier."""
    arguments = Arguments({"prompt": "x" * (LONGEST + 1)})
    assert len(arguments.text("prompt", 2 * LONGEST)) == LONGEST + 1
