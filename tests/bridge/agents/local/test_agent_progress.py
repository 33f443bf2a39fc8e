"""Progress from standard error."""

import pytest

from bridge.agents.local.output import (
    INTERVAL,
    MAX_MESSAGE_LENGTH,
    MAX_MESSAGES,
    STDERR_TAIL_BYTES,
    ProgressReader,
)


def progress(*pieces: bytes) -> ProgressReader:
    made = ProgressReader()
    for piece in pieces:
        made.add(piece)
    return made


def test_a_line_is_a_message_once_it_is_whole() -> None:
    """Half a line says nothing yet."""
    made = progress(b"read", b"ing fi")
    assert (made.deadline(), made.due(0.0)) == (None, None)
    made.add(b"les\nand")
    assert made.due(0.0) == "reading files"
    assert made.due(0.0) is None


def test_of_many_lines_the_newest_is_told_once_in_a_second() -> None:
    """The first at once; a program that writes a thousand a second floods nobody."""
    made = progress(b"1\n2\n3\n")
    assert made.due(10.0) == "3"
    made.add(b"4\n5\n")
    assert made.deadline() == 10.0 + INTERVAL
    assert made.due(10.0 + INTERVAL / 2) is None
    assert made.due(10.0 + INTERVAL) == "5"
    assert made.deadline() is None


def test_there_is_an_end_to_it() -> None:
    """A task has so many messages and no more."""
    made = ProgressReader()
    told = 0
    for now in range(MAX_MESSAGES + 10):
        made.add(b"still at it\n")
        told += made.due(now * INTERVAL) is not None
    assert told == MAX_MESSAGES


def test_a_line_without_end_costs_no_memory() -> None:
    """It is cut, and the next one is whole again."""
    made = ProgressReader()
    for _ in range(100):
        made.add(b"x" * 65536)
    made.add(b"\n")
    message = made.due(0.0)
    assert message is not None
    assert len(message) == MAX_MESSAGE_LENGTH
    made.add(b"next\n")
    assert made.due(INTERVAL) == "next"
    assert made.total == 100 * 65536 + 6


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"\x1b[1;32mgreen\x1b[0m\n", "green"),
        (b"\x1b]0;title\x07body\n", "body"),
        (b"\x1b]8;;https://x\x1b\\link\x1b]8;;\x1b\\\n", "link"),
        (b" 10%\r 20%\r", "20%"),
        (b"a\x00b\x08c\td\x9be\n", "abc\td\ufffde"),
        (b"a\xff\n", "a\ufffd"),
        (b"\n\n   \n", None),
    ],
)
def test_what_is_meant_for_a_terminal_is_taken_out(written: bytes, read: str | None) -> None:
    """People read it elsewhere; a colour or a moved cursor would only spoil it."""
    assert progress(written).due(0.0) == read


def test_the_end_is_remembered() -> None:
    """Of a task that fails, the last words often say why."""
    made = progress(b"x" * 100_000, b"\n\x1b[31mno such file\x1b[0m\n")
    assert made.end().endswith("x\nno such file")
    assert len(made.end()) <= STDERR_TAIL_BYTES
