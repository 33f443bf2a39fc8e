"""The two-part answer in which media crosses federation: written round the bytes, read piece by piece.

Server-server API, "Content Repository": the answer is `multipart/mixed` with "exactly two parts": first
`application/json`, "currently an empty object", then the media, or only a `Location` where it is to be had.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

import orjson

MOST_OF_A_HEAD: Final = 16 * 1024
MOST_OF_METADATA: Final = 64 * 1024
# Before the first delimiter, and behind the last: RFC 2046, 5.1.1 says that both are to be ignored.
MOST_IGNORED: Final = 4 * 1024
MOST_ROUND_IT: Final = 2 * MOST_OF_A_HEAD + MOST_OF_METADATA + 2 * MOST_IGNORED + 1024
"""Bytes that an answer may have beside the media itself."""

# RFC 2046, 5.1.1: bchars, of which a blank is never the last.
_BOUNDARY: Final = re.compile(
    r";[ \t]*boundary[ \t]*=[ \t]*"
    r"(?:\"(?P<quoted>[0-9A-Za-z'()+_,./:=? -]{0,69}[0-9A-Za-z'()+_,./:=?-])\""
    r"|(?P<plain>[0-9A-Za-z'+_.-]{1,70}))"
    r"[ \t]*(?:;|\Z)",
    re.ASCII | re.IGNORECASE,
)
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*?)[ \t]*")
_BLANKS: Final = b" \t"


class NotTwoParts(ValueError):
    """The answer is not what the specification describes; the text comes after the server's name."""


@dataclass(frozen=True, slots=True)
class PartHead:
    """The head of the second part, names in lower case, bytes read as Latin-1."""

    headers: Mapping[str, str]


class _State(Enum):
    PREAMBLE = auto()
    DELIMITER = auto()
    HEAD = auto()
    BODY = auto()
    EPILOGUE = auto()


def boundary_of(content_type: str) -> str | None:
    """The boundary that a `Content-Type` names; None when it is no `multipart/mixed`."""
    kind, _, _ = content_type.partition(";")
    match = _BOUNDARY.search(content_type)
    if kind.strip().lower() != "multipart/mixed" or match is None:
        return None
    return str(match["quoted"] or match["plain"])


def framed(boundary: str, headers: Mapping[str, str]) -> tuple[bytes, bytes]:
    """What stands before the media and what behind it. `boundary` is nothing that could be in the media.

    The first header of the first part is its type, and it is alone: Synapse relies on that.
    """
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    assert not re.search(r"[\r\n\0]", "".join([boundary, *headers, *headers.values()])), "one line each"
    before = f"--{boundary}\r\nContent-Type: application/json\r\n\r\n{{}}\r\n--{boundary}\r\n{fields}\r\n"
    return before.encode("ascii"), f"\r\n--{boundary}--\r\n".encode("ascii")


class TwoPartReader:
    """A machine: given pieces as they come, it gives back the second part: its head, then its bytes."""

    def __init__(self, boundary: str) -> None:
        self._delimiter = b"\r\n--" + boundary.encode("ascii")
        # So that a delimiter at the very beginning is like any other.
        self._rest = b"\r\n"
        self._state = _State.PREAMBLE
        self._part = 0
        # Of what stands at the beginning of `_rest`, so much was put there by us.
        self._skip = 0
        self._metadata = b""
        self._ignored = 0

    def receive(self, data: bytes) -> list[PartHead | bytes]:
        """What this piece completes. Raises `NotTwoParts`."""
        self._rest += data
        found: list[PartHead | bytes] = []
        while self._step(found):
            pass
        return found

    def finish(self) -> None:
        """The answer has ended. Raises `NotTwoParts` if it was cut short."""
        if self._state is not _State.EPILOGUE:
            raise NotTwoParts("broke off in the middle of an answer of two parts")

    def _step(self, found: list[PartHead | bytes]) -> bool:
        """One step forward; whether there may be another."""
        match self._state:
            case _State.PREAMBLE:
                return self._preamble()
            case _State.DELIMITER:
                return self._end_of_delimiter()
            case _State.HEAD:
                return self._head(found)
            case _State.BODY:
                return self._body(found)
            case _State.EPILOGUE:
                self._ignore(len(self._rest))
                self._rest = b""
                return False

    def _preamble(self) -> bool:
        before, delimiter, after = self._rest.partition(self._delimiter)
        if not delimiter:
            kept = len(self._delimiter) - 1
            self._ignore(len(self._rest[:-kept]))
            self._rest = self._rest[-kept:]
            return False
        self._ignore(len(before))
        self._rest, self._state = after, _State.DELIMITER
        return True

    def _end_of_delimiter(self) -> bool:
        """Behind a delimiter: blanks and the end of the line, or two hyphens after the last part."""
        if len(self._rest) < 2:
            return False
        if self._rest.startswith(b"--"):
            if self._part != 2:
                raise NotTwoParts("answered with fewer than two parts")
            self._rest, self._state = self._rest[2:], _State.EPILOGUE
            return True
        line, end, after = self._rest.partition(b"\r\n")
        if line.removesuffix(b"\r").strip(_BLANKS) or len(line) > MOST_OF_A_HEAD:
            raise NotTwoParts("answered with a part that does not begin")
        if not end:
            return False
        if self._part == 2:
            raise NotTwoParts("answered with more than two parts")
        self._part += 1
        # A head without fields is an empty line at once.
        self._rest, self._state = b"\r\n" + after, _State.HEAD
        return True

    def _head(self, found: list[PartHead | bytes]) -> bool:
        block, end, after = self._rest.partition(b"\r\n\r\n")
        if len(block) > MOST_OF_A_HEAD:
            raise NotTwoParts("answered with a part whose head is too large")
        if not end:
            return False
        headers = _fields(block)
        if self._part == 1:
            _expect_json(headers)
        else:
            found.append(PartHead(headers))
        # The end of the head may be the beginning of the delimiter, when the part is empty.
        self._rest, self._state = b"\r\n" + after, _State.BODY
        self._skip = 2
        return True

    def _body(self, found: list[PartHead | bytes]) -> bool:
        at = self._rest.find(self._delimiter)
        end = at if at >= 0 else max(len(self._rest) - len(self._delimiter) + 1, 0)
        data, self._rest = self._rest[:end], self._rest[end:]
        skipped = min(self._skip, len(data))
        data, self._skip = data[skipped:], self._skip - skipped
        if self._part == 1:
            self._metadata += data
            if len(self._metadata) > MOST_OF_METADATA:
                raise NotTwoParts("answered with a first part that is too large")
        elif data:
            found.append(data)
        if at < 0:
            return False
        if self._part == 1:
            _expect_object(self._metadata)
        self._rest, self._state = self._rest[len(self._delimiter) :], _State.DELIMITER
        return True

    def _ignore(self, count: int) -> None:
        self._ignored += count
        if self._ignored > 2 * MOST_IGNORED:
            raise NotTwoParts("answered with much that belongs to no part")


def _fields(block: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in block.split(b"\r\n"):
        if not line:
            continue
        match = _FIELD.fullmatch(line)
        if match is None:
            raise NotTwoParts("answered with a part whose head cannot be read")
        name = match[1].decode("ascii").lower()
        if name in headers:
            # Readers that take the first and readers that take the last would see two different answers.
            raise NotTwoParts("answered with a part that says something twice")
        headers[name] = match[2].decode("latin-1")
    return headers


def _expect_json(headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise NotTwoParts("answered with a first part that is not JSON")


def _expect_object(data: bytes) -> None:
    try:
        content = orjson.loads(data)
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise NotTwoParts("answered with a first part that is no JSON object")
