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
    Item,
    Lines,
    NoLine,
    end_line,
    failure_line,
    item_line,
)


@given(st.dictionaries(st.text(), st.text() | st.integers()), st.lists(st.integers(1, 30)))
def test_lines_come_out_as_they_went_in(value: dict[str, object], cuts: list[int]) -> None:
    """However the bytes are cut: line feeds inside a text are escaped, and so is what is not ASCII."""
    line = item_line(value)
    assert line is not None
    data = line + line + failure_line("It is broken.", "Mend it.") + end_line(DONE)
    lines, read, at = Lines(), [], 0
    for cut in [*cuts, len(data)]:
        read += lines.add(data[at : at + cut])
        at += cut
    assert read == [Item(value), Item(value), Failure("It is broken.", "Mend it."), End(DONE)]


def test_half_a_character_can_be_said() -> None:
    """A peer's words may hold one, and no line may break by it."""
    line = item_line({"reason": "\ud800"})
    assert line is not None
    assert list(Lines().add(line)) == [Item({"reason": "\ud800"})]


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"[]", b"{}", b'{"item":1}', b'{"end":1}', b'{"error":{}}', b"\xff", b"[" * 100_000],
)
def test_what_is_no_line_is_told(line: bytes) -> None:
    """Whatever answers there, nothing breaks."""
    assert list(Lines().add(line + b"\n")) == [NoLine()]


def test_a_line_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too long is neither written nor gathered for ever."""
    assert len(json.dumps("\ud800" * (LONGEST // 16))) < LONGEST
    monkeypatch.setattr(stream_lines, "LONGEST", 100)
    assert item_line({"text": "x" * 100}) is None
    lines = Lines()
    assert list(lines.add(b"x" * 60)) == []
    assert list(lines.add(b"x" * 60)) == [NoLine()]
