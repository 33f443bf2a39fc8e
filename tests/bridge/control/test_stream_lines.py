"""The lines of a stream."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.control import stream as stream_lines
from bridge.control.stream import (
    DONE,
    LONGEST,
    End,
    Failure,
    InvalidLine,
    Item,
    LineParser,
    end_line,
    failure_line,
    item_line,
)


@given(st.dictionaries(st.text(), st.text() | st.integers()), st.lists(st.integers(1, 30)))
def test_lines_are_parsed_from_any_chunks(value: dict[str, object], cuts: list[int]) -> None:
    """Line feeds and characters outside ASCII are escaped."""
    line = item_line(value)
    assert line is not None
    data = line + line + failure_line("It is broken.", "Mend it.") + end_line(DONE)
    parser, read, at = LineParser(), [], 0
    for cut in [*cuts, len(data)]:
        read += parser.add(data[at : at + cut])
        at += cut
    assert read == [Item(value), Item(value), Failure("It is broken.", "Mend it."), End(DONE)]


def test_a_lone_surrogate_can_be_sent() -> None:
    """Remote text may contain one."""
    line = item_line({"reason": "\ud800"})
    assert line is not None
    assert list(LineParser().add(line)) == [Item({"reason": "\ud800"})]


@pytest.mark.parametrize(
    "line", [b"", b"x", b"[]", b"{}", b'{"item":1}', b'{"end":1}', b'{"error":{}}', b"\xff", b"[" * 100_000]
)
def test_an_invalid_line_is_recognised(line: bytes) -> None:
    """No input raises an exception."""
    assert list(LineParser().add(line + b"\n")) == [InvalidLine()]


def test_the_length_of_a_line_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """When writing and when reading."""
    assert len(json.dumps("\ud800" * (LONGEST // 16))) < LONGEST
    monkeypatch.setattr(stream_lines, "LONGEST", 100)
    assert item_line({"text": "x" * 100}) is None
    parser = LineParser()
    assert list(parser.add(b"x" * 60)) == []
    assert list(parser.add(b"x" * 60)) == [InvalidLine()]
