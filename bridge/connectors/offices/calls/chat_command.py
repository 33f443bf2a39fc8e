"""What a person says in the room of an office to call a tool: `!call COMPUTER TOOL {…}`, or with words of the
form `name=value` where that is enough.

A name that has a blank in it stands between quotation marks. Values are JSON where they are JSON, and text
otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.protocol.events import MOST_BYTES, is_name
from bridge.connectors.offices.protocol.relay import LONGEST_CALL
from bridge.people.texts.text import one_line

PREFIX: Final = "!call"
HELP: Final = "help"
TIMEOUT: Final = "--timeout"
USAGE: Final = f"{PREFIX} COMPUTER TOOL a=1 b=2"
USAGE_JSON: Final = f'{PREFIX} COMPUTER TOOL {{"a": 1, "b": 2}}'
LONGEST: Final = 40_000
"""Characters of a line that are read."""
LONGEST_SHOWN: Final = 60

# A run without blanks, of which parts may stand between quotation marks and have some.
_WORD: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+', re.DOTALL)
_SECONDS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
# As people mark what is meant for programs.
_FENCE: Final = re.compile(r"\A`+(?:json\s)?\s*(.*?)\s*`+\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Order:
    """`timeout` is seconds."""

    computer: str
    tool_name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: int = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class Help:
    """What there is to be called."""


@dataclass(frozen=True, slots=True)
class NoOrder:
    """The sentence says what is wrong."""

    sentence: str


Parsed: TypeAlias = Order | Help | NoOrder


def behind_prefix(body: str) -> str | None:
    """What a message says behind `!call`; None for one that does not begin with it."""
    if body[: len(PREFIX)].lower() != PREFIX:
        return None
    behind = body[len(PREFIX) :]
    return behind.strip() if not behind or behind[0].isspace() else None


def parse(line: str) -> Parsed:
    """Of what stands behind the prefix. With nothing in it, it asks for help."""
    if len(line) > LONGEST:
        return NoOrder(f"That is longer than {LONGEST} characters.")
    if not line or line.lower() == HELP:
        return Help()
    words = _Words(line)
    timeout: int | NoOrder = DEFAULT_SECONDS
    if words.peek() == TIMEOUT:
        words.take()
        timeout = _timeout(words.take())
    if isinstance(timeout, NoOrder):
        return timeout
    computer, tool_name = words.name(), words.name()
    if words.is_broken:
        return NoOrder("A quotation mark has no other one.")
    if computer is None or tool_name is None:
        return NoOrder("Say which tool of which Computer is to be called.")
    if not is_name(computer) or not is_name(tool_name):
        return NoOrder(f"A name has 1 to {MOST_BYTES} bytes of printable text.")
    params = _params(words)
    return params if isinstance(params, NoOrder) else Order(computer, tool_name, params, timeout)


def read_object(text: str) -> dict[str, Any] | NoOrder:
    """Parameters as JSON."""
    try:
        said = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as wrong:
        return NoOrder(f"The parameters are no JSON: {one_line(str(wrong), 120)}.")
    if not isinstance(said, dict):
        return NoOrder('The parameters are JSON, but no object: write {"name": value}.')
    return said


def _params(words: "_Words") -> dict[str, Any] | NoOrder:
    rest = words.rest()
    fenced = _FENCE.match(rest)
    rest = fenced[1] if fenced is not None else rest
    if rest.startswith("{"):
        return read_object(rest)
    params: dict[str, Any] = {}
    words = _Words(rest)
    while (word := words.take()) is not None:
        name, equals, value = word.partition("=")
        if not equals or not name:
            shown = one_line(word, LONGEST_SHOWN)
            return NoOrder(f'{shown} is neither NAME=VALUE nor an object of JSON such as {{"a": 1}}.')
        if name in params:
            return NoOrder(f"{one_line(name, LONGEST_SHOWN)} is given twice.")
        params[name] = _value(value)
    return NoOrder("A quotation mark has no other one.") if words.is_broken else params


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text


def _timeout(word: str | None) -> int | NoOrder:
    if word is not None and _SECONDS.fullmatch(word) and 1 <= int(word) <= LONGEST_CALL:
        return int(word)
    return NoOrder(f"Behind {TIMEOUT} stand seconds, from 1 to {LONGEST_CALL}.")


class _Words:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.is_broken = False
        """It holds half a pair of quotation marks, and has no words behind that."""

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def peek(self) -> str | None:
        found = _WORD.match(self._text, self._begin())
        return None if found is None else found[0]

    def take(self) -> str | None:
        begin = self._begin()
        found = _WORD.match(self._text, begin)
        if found is None:
            self.is_broken = self.is_broken or begin < len(self._text)
            return None
        self._at = found.end()
        self.is_broken = self._at < len(self._text) and not self._text[self._at].isspace()
        return found[0]

    def name(self) -> str | None:
        """As it is called: without quotation marks around it."""
        word = self.take()
        if word is None or not word.startswith('"'):
            return word
        said = _value(word)
        return said if isinstance(said, str) else None

    def _begin(self) -> int:
        at = self._at
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at
