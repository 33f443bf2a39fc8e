"""What a process has written, of which no more is kept than is wanted: the beginning and the end.

The beginning says what it was about, and the end how it came out. What is cut goes by bytes; where the cut
falls into a character, that character is left out.

From what a process writes to standard error to progress that others are told of.

Every line is one message, but no more than one in a second: the newest counts, and those in between are left
out. A carriage return ends a line too, because that is how programs draw over what they have said before.

How the end of an agent's process becomes an answer.
"""

import re
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from bridge.agents.work import WorkOutcome
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError


@dataclass(frozen=True, slots=True)
class Kept:
    """`total` counts the bytes that were written."""

    text: str
    total: int
    left_out: int


class Output:
    """At most `most` bytes, taken in as they come."""

    def __init__(self, most: int) -> None:
        assert most > 0, "somebody will want to read it"
        self._head_room = most - most // 2
        self._tail_room = most // 2
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        if room := self._head_room - len(self._head):
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        # A whole piece goes when those behind it are enough.
        while self._tail_size - len(self._tail[0]) >= self._tail_room and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def kept(self) -> Kept:
        """Invalid UTF-8 is replaced."""
        tail = b"".join(self._tail)
        if len(tail) > self._tail_room:
            tail = tail[len(tail) - self._tail_room :]
        left_out = self.total - len(self._head) - len(tail)
        if not left_out:
            return Kept((self._head + tail).decode("utf-8", "replace"), self.total, 0)
        head = _without_beginning_of_character(bytes(self._head))
        tail = _without_end_of_character(tail)
        left_out = self.total - len(head) - len(tail)
        notice = f"\n[… {left_out} bytes are left out here …]\n"
        text = head.decode("utf-8", "replace") + notice + tail.decode("utf-8", "replace")
        return Kept(text, self.total, left_out)


def _without_beginning_of_character(data: bytes) -> bytes:
    """Without a last character of which bytes are missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # it goes on one
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back else data
    return data


def _without_end_of_character(data: bytes) -> bytes:
    """Without bytes at the beginning that go on a character whose beginning is missing."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:]


LONGEST: Final = 1_000
"""Characters of one message."""
MOST: Final = 1_000
"""Messages of one task."""
INTERVAL: Final = 1.0
"""Seconds between two."""
REMEMBERED: Final = 2_000
"""Bytes at the end that are kept for a task that fails: there it is often said why."""

_LONGEST_BYTES: Final = 4 * LONGEST
_END: Final = re.compile(rb"[\r\n]")
# Sequences that colour text, move the cursor or write a title: ECMA-48, 5.4 (CSI), 5.6 (OSC and the like),
# and the rest, of two bytes.
_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^_`a-~])"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def readable(data: bytes) -> str:
    """As text, without what is meant for a terminal alone."""
    return _CONTROL.sub("", _SEQUENCE.sub("", data.decode("utf-8", "replace")))


class Progress:
    """A machine: bytes in, messages out. Times are seconds of a clock that never runs backwards."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._waiting: str | None = None
        self._last: float | None = None
        self._told = 0
        self._end = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._end += data
        del self._end[:-REMEMBERED]
        *lines, rest = _END.split(data)
        for line in lines:
            self._extend(line)
            self._complete()
        self._extend(rest)

    def _extend(self, data: bytes) -> None:
        # The rest of a line that is too long is dropped, up to its end.
        self._line += data[: _LONGEST_BYTES - len(self._line)]

    def _complete(self) -> None:
        text = readable(bytes(self._line)).strip()
        self._line.clear()
        if text:
            self._waiting = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"

    def due(self, now: float) -> str | None:
        """What is to be told now. Whoever gets it tells it."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return None
        message, self._waiting = self._waiting, None
        self._last = now
        self._told += 1
        return message

    def deadline(self) -> float | None:
        """When there is something to tell next."""
        if self._waiting is None or self._told >= MOST:
            return None
        return 0.0 if self._last is None else self._last + INTERVAL

    def end(self) -> str:
        """The last that was written, as far as it is remembered."""
        return readable(bytes(self._end)).strip()


SIGNALLED: Final = 128
"""Shells add it to the number of the signal that ended a program."""
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
LONGEST_DETAIL: Final = 1_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Exited:
    code: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """By somebody else than us."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """`reason` is a sentence that names nothing of this machine: whoever asked for the task reads it.
    `problem` is for the operator."""

    reason: str
    problem: str
    code: int = NOT_STARTED


class Ended(StrEnum):
    """By us."""

    TIME_LIMIT = "time limit"
    FLOOD = "flood"
    """It wrote without end."""
    LOST = "lost"
    """Nobody knows how it ended: what watched it was killed."""


Ending: TypeAlias = Exited | Signalled | NotStarted | Ended


def answer(ending: Ending, output: Kept, said: str, seconds: float) -> WorkOutcome:
    """`said` is the end of what it wrote to standard error; `seconds` is the time that it had."""
    match ending:
        case Exited(0):
            return Answer(True, output.text, 0, _cut(output))
        case Exited(code):
            return _failure(output, said, code, {})
        case Signalled(number, name):
            return _failure(output, said, SIGNALLED + number, {"signal": name})
        case NotStarted(reason, _, code):
            return Answer(False, reason, code, {"not_started": True})
        case Ended.TIME_LIMIT:
            # How far it came helps whoever asks again with more time.
            reason = f"The agent had not finished after {seconds:.0f} s, and was ended."
            return TaskError(ErrorCode.TIMEOUT, reason, _details(output, said))
        case Ended.FLOOD:
            return _failure(output, said, 1, {"ended": "It wrote without end."})
        case Ended.LOST:
            return _failure(output, said, 1, {"ended": "What watched over the process was killed."})


def _failure(output: Kept, said: str, code: int, metadata: dict[str, Any]) -> Answer:
    """Many programs say to standard error alone what went wrong."""
    text = output.text if output.text.strip() else said
    return Answer(False, text, code, {**metadata, **_cut(output), **({"stderr": said} if said else {})})


def _cut(output: Kept) -> dict[str, Any]:
    if not output.left_out:
        return {}
    return {"output_bytes": output.total, "output_left_out": output.left_out}


def _details(output: Kept, said: str) -> dict[str, Any]:
    """The end of both."""
    return {
        **({"output": output.text[-LONGEST_DETAIL:]} if output.text else {}),
        **({"stderr": said} if said else {}),
    }
