"""The `!call` command."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.calls.chat_command import (
    CallCommand,
    HelpCommand,
    InvalidCommand,
    parse,
    read_object,
    strip_prefix,
)


@pytest.mark.parametrize(
    ("body", "behind"),
    [
        ("!call", ""),
        ("!call ", ""),
        ("!CALL bench add", "bench add"),
        ("!call\nbench add", "bench add"),
        ("!caller", None),
        ("call bench add", None),
        ("say !call", None),
        ("", None),
    ],
)
def test_the_prefix_is_a_word_at_the_beginning(body: str, behind: str | None) -> None:
    """In upper or lower case."""
    assert strip_prefix(body) == behind


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ('bench add {"a": 1, "b": [2]}', CallCommand("bench", "add", {"a": 1, "b": [2]})),
        ("bench add a=1 b=2", CallCommand("bench", "add", {"a": 1, "b": 2})),
        ("bench add", CallCommand("bench", "add", {})),
        ("bench add {}", CallCommand("bench", "add", {})),
        ("--timeout 120 bench add", CallCommand("bench", "add", {}, 120)),
        ("bench add --timeout=5", CallCommand("bench", "add", {"--timeout": 5})),
        ('"my bench" "the tool"  x=y', CallCommand("my bench", "the tool", {"x": "y"})),
        ('bench say text="two words" more=one', CallCommand("bench", "say", {"text": "two words", "more": "one"})),
        ("bench say yes=true no=null n=-1.5", CallCommand("bench", "say", {"yes": True, "no": None, "n": -1.5})),
        ("bench say url=http://x/?a=b", CallCommand("bench", "say", {"url": "http://x/?a=b"})),
        ("bench say empty=", CallCommand("bench", "say", {"empty": ""})),
        ("bench say list=[1,2]", CallCommand("bench", "say", {"list": [1, 2]})),
        ('bench add `{"a": 1}`', CallCommand("bench", "add", {"a": 1})),
        ('bench add ```json\n{"a": 1}\n```', CallCommand("bench", "add", {"a": 1})),
        ("add help", CallCommand("add", "help", {})),
    ],
)
def test_valid_commands(line: str, command: CallCommand) -> None:
    """Parameters as a JSON object or as words; names with spaces in quotation marks."""
    assert parse(line) == command


@pytest.mark.parametrize("line", ["", "help", "HELP"])
def test_help_is_requested(line: str) -> None:
    """By its word, or by an empty command."""
    assert parse(line) == HelpCommand()


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("bench", "Name a Computer and one of its tools"),
        ("bench add {a: 1}", "not valid JSON"),
        ('bench add {"a": 1', "not valid JSON"),
        ("bench add {} {}", "not valid JSON"),
        ("bench add 1 2", "neither NAME=VALUE"),
        ("bench add [1]", "neither NAME=VALUE"),
        ("bench add =1", "neither NAME=VALUE"),
        ("bench add a=1 a=2", "a is given twice"),
        ('bench add text="two words', "quotation mark"),
        ('"bench add', "quotation mark"),
        ('"" add', "A name is"),
        ("--timeout soon bench add", "number of seconds"),
        ("--timeout 0 bench add", "number of seconds"),
        ("--timeout 3601 bench add", "number of seconds"),
        ("--timeout", "number of seconds"),
        (f"bench add text={'x' * 40_000}", "longer than"),
        (f"{'b' * 256} add", "A name is"),
    ],
)
def test_mistakes_are_explained(line: str, part: str) -> None:
    """In a short sentence for the person."""
    parsed = parse(line)
    assert isinstance(parsed, InvalidCommand)
    assert part in parsed.reason
    assert len(parsed.reason) < 300


@pytest.mark.parametrize("text", ["[1]", "1", '"a"', "null", "", "{", "\ud800", '{"a": NaN}'])
def test_parameters_must_be_an_object(text: str) -> None:
    """Other JSON values and invalid JSON are refused."""
    assert isinstance(read_object(text), InvalidCommand)


@given(st.text())
def test_any_text_can_be_parsed(line: str) -> None:
    """Parsing never raises."""
    assert isinstance(parse(line), CallCommand | HelpCommand | InvalidCommand)


@given(st.dictionaries(st.text(), st.one_of(st.integers(-(2**53), 2**53), st.text(), st.booleans())))
def test_json_objects_are_passed_unchanged(params: dict[str, Any]) -> None:
    """Every object that JSON can express."""
    try:
        text = orjson.dumps(params).decode()
    except TypeError:
        return
    assert parse(f"bench add {text}") == CallCommand("bench", "add", params) or len(text) > 39_000
