"""The output of a process: a bounded capture, progress messages from standard error, and the outcome of the
task.

The capture keeps the beginning and the end of the output, and cuts between characters.

Each line of standard error is a progress message. At most one message per second is sent, the newest one. A
carriage return ends a line too, because programs use it to overwrite what they have shown.
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
class CapturedOutput:
    """`total` is the number of bytes that were written."""

    text: str
    total: int
    left_out: int


class OutputCapture:
    """Captures at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        assert limit > 0, "the limit must be positive"
        self._head_room = limit - limit // 2
        self._tail_room = limit // 2
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
        # Drop the oldest piece when the later ones suffice.
        while self._tail_size - len(self._tail[0]) >= self._tail_room and len(self._tail) > 1:
            self._tail_size -= len(self._tail.popleft())

    def captured(self) -> CapturedOutput:
        """The captured text. Invalid UTF-8 is replaced."""
        tail = b"".join(self._tail)
        if len(tail) > self._tail_room:
            tail = tail[len(tail) - self._tail_room :]
        left_out = self.total - len(self._head) - len(tail)
        if not left_out:
            return CapturedOutput((self._head + tail).decode("utf-8", "replace"), self.total, 0)
        head = _without_beginning_of_character(bytes(self._head))
        tail = _without_end_of_character(tail)
        left_out = self.total - len(head) - len(tail)
        notice = f"\n[… {left_out} bytes left out …]\n"
        text = head.decode("utf-8", "replace") + notice + tail.decode("utf-8", "replace")
        return CapturedOutput(text, self.total, left_out)


def _without_beginning_of_character(data: bytes) -> bytes:
    """Remove an incomplete character at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # a continuation byte
            continue
        length = 1 if byte < 0x80 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
        return data[:-back] if length > back else data
    return data


def _without_end_of_character(data: bytes) -> bytes:
    """Remove an incomplete character at the beginning."""
    cut = 0
    while cut < min(3, len(data)) and data[cut] & 0xC0 == 0x80:
        cut += 1
    return data[cut:]


MAX_MESSAGE_LENGTH: Final = 1_000
"""Characters of one message."""
MAX_MESSAGES: Final = 1_000
"""Messages of one task."""
INTERVAL: Final = 1.0
"""Seconds between two messages."""
STDERR_TAIL_BYTES: Final = 2_000
"""Bytes at the end of standard error that are kept. They often explain a failure."""

_MAX_LINE_BYTES: Final = 4 * MAX_MESSAGE_LENGTH
_END: Final = re.compile(rb"[\r\n]")
# Sequences that colour text, move the cursor or set a title: ECMA-48, 5.4 (CSI), 5.6 (OSC and similar), and
# those of two bytes.
_SEQUENCE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^_`a-~])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")


def readable(data: bytes) -> str:
    """The text without terminal control sequences."""
    return _CONTROL.sub("", _SEQUENCE.sub("", data.decode("utf-8", "replace")))


class ProgressReader:
    """Splits standard error into progress messages. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._pending: str | None = None
        self._last: float | None = None
        self._sent = 0
        self._end = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._end += data
        del self._end[:-STDERR_TAIL_BYTES]
        *lines, rest = _END.split(data)
        for line in lines:
            self._extend(line)
            self._complete()
        self._extend(rest)

    def _extend(self, data: bytes) -> None:
        # The rest of a line that is too long is dropped.
        self._line += data[: _MAX_LINE_BYTES - len(self._line)]

    def _complete(self) -> None:
        text = readable(bytes(self._line)).strip()
        self._line.clear()
        if text:
            self._pending = text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 1]}…"

    def due(self, now: float) -> str | None:
        """Return and remove the message that is due."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return None
        message, self._pending = self._pending, None
        self._last = now
        self._sent += 1
        return message

    def deadline(self) -> float | None:
        """When the next message is due."""
        if self._pending is None or self._sent >= MAX_MESSAGES:
            return None
        return 0.0 if self._last is None else self._last + INTERVAL

    def end(self) -> str:
        """The end of what was written."""
        return readable(bytes(self._end)).strip()


SIGNALLED: Final = 128
"""Shells add this to the number of the signal that ended a program."""
NOT_FOUND: Final = 127
NOT_STARTED: Final = 126
MAX_DETAIL_LENGTH: Final = 1_000
"""Characters."""


@dataclass(frozen=True, slots=True)
class Exited:
    code: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """Ended by a signal that the supervisor did not send."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class NotStarted:
    """`reason` is a sentence for the requester and contains nothing of this machine; `problem` is for the
    operator."""

    reason: str
    problem: str
    code: int = NOT_STARTED


class Termination(StrEnum):
    """Why the node ended the process."""

    TIME_LIMIT = "time limit"
    FLOOD = "flood"
    """It wrote without end."""
    LOST = "lost"
    """The supervisor was killed, so the end is unknown."""


Ending: TypeAlias = Exited | Signalled | NotStarted | Termination


def outcome_of(ending: Ending, output: CapturedOutput, stderr: str, seconds: float) -> WorkOutcome:
    """The outcome of the task. `stderr` is the end of standard error, `seconds` the time limit."""
    match ending:
        case Exited(0):
            return Answer(True, output.text, 0, _truncation(output))
        case Exited(code):
            return _failure(output, stderr, code, {})
        case Signalled(number, name):
            return _failure(output, stderr, SIGNALLED + number, {"signal": name})
        case NotStarted(reason, _, code):
            return Answer(False, reason, code, {"not_started": True})
        case Termination.TIME_LIMIT:
            # The output so far helps the requester to choose a longer time.
            reason = f"The agent did not finish within {seconds:.0f} s and was stopped."
            return TaskError(ErrorCode.TIMEOUT, reason, _details(output, stderr))
        case Termination.FLOOD:
            return _failure(output, stderr, 1, {"ended": "It wrote without end."})
        case Termination.LOST:
            return _failure(output, stderr, 1, {"ended": "The supervisor of the process was killed."})


def _failure(output: CapturedOutput, stderr: str, code: int, metadata: dict[str, Any]) -> Answer:
    """A failed task's answer. If there is no output, use standard error, to which many programs write their
    errors."""
    text = output.text if output.text.strip() else stderr
    return Answer(False, text, code, {**metadata, **_truncation(output), **({"stderr": stderr} if stderr else {})})


def _truncation(output: CapturedOutput) -> dict[str, Any]:
    if not output.left_out:
        return {}
    return {"output_bytes": output.total, "output_left_out": output.left_out}


def _details(output: CapturedOutput, stderr: str) -> dict[str, Any]:
    """The end of the output and of standard error."""
    return {
        **({"output": output.text[-MAX_DETAIL_LENGTH:]} if output.text else {}),
        **({"stderr": stderr} if stderr else {}),
    }
