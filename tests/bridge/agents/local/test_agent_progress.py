"""Progress messages from standard error."""

import pytest

from bridge.agents.local.output import INTERVAL, MAX_MESSAGE_LENGTH, MAX_MESSAGES, STDERR_TAIL_BYTES, ProgressReader


def progress(*pieces: bytes) -> ProgressReader:
    made = ProgressReader()
    for piece in pieces:
        made.add(piece)
    return made


def test_a_complete_line_is_a_message() -> None:
    """An incomplete line is not."""
    made = progress(b"read", b"ing fi")
    assert (made.deadline(), made.due(0.0)) == (None, None)
    made.add(b"les\nand")
    assert made.due(0.0) == "reading files"
    assert made.due(0.0) is None


def test_of_many_lines_the_newest_is_sent_once_a_second() -> None:
    """The first one at once."""
    made = progress(b"1\n2\n3\n")
    assert made.due(10.0) == "3"
    made.add(b"4\n5\n")
    assert made.deadline() == 10.0 + INTERVAL
    assert made.due(10.0 + INTERVAL / 2) is None
    assert made.due(10.0 + INTERVAL) == "5"
    assert made.deadline() is None


def test_the_number_of_messages_is_limited() -> None:
    """For each task."""
    made = ProgressReader()
    told = 0
    for now in range(MAX_MESSAGES + 10):
        made.add(b"still at it\n")
        told += made.due(now * INTERVAL) is not None
    assert told == MAX_MESSAGES


def test_a_very_long_line_is_cut() -> None:
    """The next one is complete again."""
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
def test_terminal_sequences_are_removed(written: bytes, read: str | None) -> None:
    """Colours and cursor movements mean nothing elsewhere."""
    assert progress(written).due(0.0) == read


def test_the_end_of_standard_error_is_kept() -> None:
    """It often explains a failure."""
    made = progress(b"x" * 100_000, b"\n\x1b[31mno such file\x1b[0m\n")
    assert made.end().endswith("x\nno such file")
    assert len(made.end()) <= STDERR_TAIL_BYTES
