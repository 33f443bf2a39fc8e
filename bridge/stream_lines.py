"""The lines of a stream on the control socket: JSON objects, and a last line that says how it ended.

A stream that breaks off without a last line has lost its node.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

LONGEST: Final = 16 * 1024 * 1024
"""Bytes of one line. An answer of a megabyte has less, with each of its characters escaped."""
STOPPING: Final = "stopping"
DONE: Final = "done"


@dataclass(frozen=True, slots=True)
class Item:
    """What the command has to say."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class End:
    """`because` is `done`, or `stopping` when it was the node that ended it."""

    because: str


@dataclass(frozen=True, slots=True)
class Failure:
    problem: str
    advice: str


@dataclass(frozen=True, slots=True)
class NoLine:
    """Whoever speaks there is no node, or of another version."""


Line: TypeAlias = Item | End | Failure | NoLine


def item_line(value: Mapping[str, Any]) -> bytes | None:
    """None for one that is too long."""
    line = _line({"item": value})
    return line if len(line) <= LONGEST else None


def end_line(because: str) -> bytes:
    return _line({"end": because})


def failure_line(problem: str, advice: str) -> bytes:
    return _line({"error": {"problem": problem, "advice": advice}})


def _line(value: Mapping[str, Any]) -> bytes:
    # Everything but ASCII is escaped: it may hold halves of characters, which UTF-8 cannot write.
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


class Lines:
    """Bytes in, lines out. What follows a line that is none is not read."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, data: bytes) -> Iterator[Line]:
        looked_at = len(self._rest)
        self._rest += data
        while (end := self._rest.find(b"\n", looked_at)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            looked_at = 0
            yield _read(line)
        if len(self._rest) > LONGEST:
            self._rest.clear()
            yield NoLine()


def _read(line: bytes) -> Line:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return NoLine()
    match said:
        case {"item": dict(value)}:
            return Item(value)
        case {"end": str(because)}:
            return End(because)
        case {"error": {"problem": str(problem), "advice": str(advice)}}:
            return Failure(problem, advice)
    return NoLine()
