"""From what a process writes to standard error to progress that others are told of.

Every line is one message, but no more than one in a second: the newest counts, and those in between are left
out. A carriage return ends a line too, because that is how programs draw over what they have said before.
"""

import re
from typing import Final

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
