"""`!call`, as people say it."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.calls.chat_command import (
    Help,
    NoOrder,
    Order,
    behind_prefix,
    parse,
    read_object,
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
def test_it_begins_with_its_word(body: str, behind: str | None) -> None:
    """As a word of its own, at the beginning."""
    assert behind_prefix(body) == behind


@pytest.mark.parametrize(
    ("line", "order"),
    [
        ('bench add {"a": 1, "b": [2]}', Order("bench", "add", {"a": 1, "b": [2]})),
        ("bench add a=1 b=2", Order("bench", "add", {"a": 1, "b": 2})),
        ("bench add", Order("bench", "add", {})),
        ("bench add {}", Order("bench", "add", {})),
        ("--timeout 120 bench add", Order("bench", "add", {}, 120)),
        ("bench add --timeout=5", Order("bench", "add", {"--timeout": 5})),
        ('"my bench" "the tool"  x=y', Order("my bench", "the tool", {"x": "y"})),
        ('bench say text="two words" more=one', Order("bench", "say", {"text": "two words", "more": "one"})),
        ("bench say yes=true no=null n=-1.5", Order("bench", "say", {"yes": True, "no": None, "n": -1.5})),
        ("bench say url=http://x/?a=b", Order("bench", "say", {"url": "http://x/?a=b"})),
        ("bench say empty=", Order("bench", "say", {"empty": ""})),
        ("bench say list=[1,2]", Order("bench", "say", {"list": [1, 2]})),
        ('bench add `{"a": 1}`', Order("bench", "add", {"a": 1})),
        ('bench add ```json\n{"a": 1}\n```', Order("bench", "add", {"a": 1})),
        ("add help", Order("add", "help", {})),
    ],
)
def test_a_call_is_read(line: str, order: Order) -> None:
    """With an object of JSON, or with words; names that hold blanks between quotation marks."""
    assert parse(line) == order


@pytest.mark.parametrize("line", ["", "help", "HELP"])
def test_help_is_asked_for(line: str) -> None:
    """By its word, or by nothing."""
    assert parse(line) == Help()


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("bench", "which tool of which Computer"),
        ("bench add {a: 1}", "no JSON"),
        ('bench add {"a": 1', "no JSON"),
        ("bench add {} {}", "no JSON"),
        ("bench add 1 2", "neither NAME=VALUE"),
        ("bench add [1]", "neither NAME=VALUE"),
        ("bench add =1", "neither NAME=VALUE"),
        ("bench add a=1 a=2", "a is given twice"),
        ('bench add text="two words', "quotation mark"),
        ('"bench add', "quotation mark"),
        ('"" add', "A name has"),
        ("--timeout soon bench add", "stand seconds"),
        ("--timeout 0 bench add", "stand seconds"),
        ("--timeout 3601 bench add", "stand seconds"),
        ("--timeout", "stand seconds"),
        (f"bench add text={'x' * 40_000}", "longer than"),
        (f"{'b' * 256} add", "A name has"),
    ],
)
def test_what_is_wrong_is_said(line: str, part: str) -> None:
    """In a sentence for whoever has written it."""
    parsed = parse(line)
    assert isinstance(parsed, NoOrder)
    assert part in parsed.sentence
    assert len(parsed.sentence) < 300


@pytest.mark.parametrize("text", ["[1]", "1", '"a"', "null", "", "{", "\ud800", '{"a": NaN}'])
def test_parameters_are_an_object(text: str) -> None:
    """Whatever else it is, is refused."""
    assert isinstance(read_object(text), NoOrder)


@given(st.text())
def test_anything_is_read(line: str) -> None:
    """Nothing that somebody writes is more than a mistake of his."""
    assert isinstance(parse(line), Order | Help | NoOrder)


@given(st.dictionaries(st.text(), st.one_of(st.integers(-(2**53), 2**53), st.text(), st.booleans())))
def test_json_is_taken_as_it_is(params: dict[str, Any]) -> None:
    """Every object that can be written."""
    try:
        text = orjson.dumps(params).decode()
    except TypeError:
        return
    assert parse(f"bench add {text}") == Order("bench", "add", params) or len(text) > 39_000
