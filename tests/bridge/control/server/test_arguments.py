"""What a command is given."""

import pytest

from bridge.control.server.arguments import LONGEST, Arguments
from storage.errors import LocalError


def test_what_was_given_is_read() -> None:
    """A text, perhaps an empty one; a number; a switch; and what was left out."""
    arguments = Arguments({"room": "!a", "key": "", "limit": 7, "raw": True})
    assert arguments.text("room") == "!a"
    assert arguments.optional_text("key") == ""
    assert arguments.optional_text("type") is None
    assert arguments.number("limit", 1, 7) == 7
    assert arguments.number("most", 5, 10) == 5
    assert arguments.flag("raw")
    assert not arguments.flag("all")


@pytest.mark.parametrize("value", [7, ["a"], {}, "a\0b", "\ud800", "x" * (LONGEST + 1), True])
def test_what_is_no_text_is_refused(value: object) -> None:
    """In words, before anybody else has to do with it."""
    with pytest.raises(LocalError, match="room is not a text"):
        Arguments({"room": value}).optional_text("room")


@pytest.mark.parametrize("value", [0, -1, 8, 7.0, "7", True, 10**30])
def test_what_is_no_number_is_refused(value: object) -> None:
    """Truth is not the number one."""
    with pytest.raises(LocalError, match="from 1 to 7"):
        Arguments({"limit": value}).number("limit", 1, 7)


@pytest.mark.parametrize("value", [None, ""])
def test_what_is_needed_is_asked_for(value: object) -> None:
    """By its name."""
    with pytest.raises(LocalError, match="needs room"):
        Arguments({"room": value}).text("room")


def test_only_true_switches_on() -> None:
    """Nothing else is taken for it."""
    assert not Arguments({"all": "true"}).flag("all")


def test_texts_are_a_list_of_them() -> None:
    """None if they were left out."""
    arguments = Arguments({"types": ["task", "cis"]})
    assert arguments.texts("types") == ["task", "cis"]
    assert arguments.texts("nodes") == []


@pytest.mark.parametrize("value", ["task", 7, {}, [7], [""], ["a\0"], [["a"]], ["a"] * 21])
def test_what_is_no_list_of_texts_is_refused(value: object) -> None:
    """Nor are there too many, or empty ones."""
    with pytest.raises(LocalError, match="types"):
        Arguments({"types": value}).texts("types")


def test_a_text_may_be_allowed_to_be_long() -> None:
    """A prompt is no identifier."""
    arguments = Arguments({"prompt": "x" * (LONGEST + 1)})
    assert len(arguments.text("prompt", 2 * LONGEST)) == LONGEST + 1
