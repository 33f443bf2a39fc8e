"""Parses the command with which a person calls a tool in the room of an office: `!call COMPUTER TOOL {…}`, or
`!call COMPUTER TOOL name=value …` for simple parameters.

Names with spaces are written in quotation marks. A value is read as JSON if it is valid JSON, and as text
otherwise.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import orjson

from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.protocol.events import MAX_NAME_BYTES, is_name
from bridge.connectors.offices.protocol.relay import MAX_TIMEOUT
from bridge.people.texts.text import one_line

PREFIX: Final = "!call"
HELP: Final = "help"
TIMEOUT: Final = "--timeout"
USAGE: Final = f"{PREFIX} COMPUTER TOOL a=1 b=2"
USAGE_JSON: Final = f'{PREFIX} COMPUTER TOOL {{"a": 1, "b": 2}}'
MAX_LENGTH: Final = 40_000
"""Characters of a command."""
MAX_SHOWN_LENGTH: Final = 60

# Characters other than spaces; parts of a word may be in quotation marks and contain spaces.
_WORD: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*"|[^\s"])+', re.DOTALL)
_SECONDS: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
# People mark code with backquotes.
_FENCE: Final = re.compile(r"\A`+(?:json\s)?\s*(.*?)\s*`+\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CallCommand:
    """`timeout` is in seconds."""

    computer: str
    tool_name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    timeout: int = DEFAULT_SECONDS


@dataclass(frozen=True, slots=True)
class HelpCommand:
    """Lists what can be called."""


@dataclass(frozen=True, slots=True)
class InvalidCommand:
    """`reason` is a sentence for the person."""

    reason: str


ChatCommand: TypeAlias = CallCommand | HelpCommand | InvalidCommand


def strip_prefix(body: str) -> str | None:
    """The text behind `!call`; None if the message does not begin with it."""
    if body[: len(PREFIX)].lower() != PREFIX:
        return None
    rest = body[len(PREFIX) :]
    return rest.strip() if not rest or rest[0].isspace() else None


def parse(line: str) -> ChatCommand:
    """Parse the text behind the prefix. An empty text requests help."""
    if len(line) > MAX_LENGTH:
        return InvalidCommand(f"The command is longer than {MAX_LENGTH} characters.")
    if not line or line.lower() == HELP:
        return HelpCommand()
    words = _Tokenizer(line)
    timeout: int | InvalidCommand = DEFAULT_SECONDS
    if words.peek() == TIMEOUT:
        words.next()
        timeout = _timeout(words.next())
    if isinstance(timeout, InvalidCommand):
        return timeout
    computer, tool_name = words.name(), words.name()
    if words.is_unterminated:
        return InvalidCommand("A quotation mark is not closed.")
    if computer is None or tool_name is None:
        return InvalidCommand("Name a Computer and one of its tools.")
    if not is_name(computer) or not is_name(tool_name):
        return InvalidCommand(f"A name is 1 to {MAX_NAME_BYTES} bytes of printable text.")
    params = _params(words)
    return params if isinstance(params, InvalidCommand) else CallCommand(computer, tool_name, params, timeout)


def read_object(text: str) -> dict[str, Any] | InvalidCommand:
    """Parse parameters written as a JSON object."""
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError) as wrong:
        return InvalidCommand(f"The parameters are not valid JSON: {one_line(str(wrong), 120)}.")
    if not isinstance(value, dict):
        return InvalidCommand('The parameters must be a JSON object: write {"name": value}.')
    return value


def _params(words: "_Tokenizer") -> dict[str, Any] | InvalidCommand:
    rest = words.rest()
    fenced = _FENCE.match(rest)
    rest = fenced[1] if fenced is not None else rest
    if rest.startswith("{"):
        return read_object(rest)
    params: dict[str, Any] = {}
    words = _Tokenizer(rest)
    while (word := words.next()) is not None:
        name, equals, value = word.partition("=")
        if not equals or not name:
            shown = one_line(word, MAX_SHOWN_LENGTH)
            return InvalidCommand(f'{shown} is neither NAME=VALUE nor a JSON object such as {{"a": 1}}.')
        if name in params:
            return InvalidCommand(f"{one_line(name, MAX_SHOWN_LENGTH)} is given twice.")
        params[name] = _value(value)
    return InvalidCommand("A quotation mark is not closed.") if words.is_unterminated else params


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text


def _timeout(word: str | None) -> int | InvalidCommand:
    if word is not None and _SECONDS.fullmatch(word) and 1 <= int(word) <= MAX_TIMEOUT:
        return int(word)
    return InvalidCommand(f"{TIMEOUT} takes a number of seconds from 1 to {MAX_TIMEOUT}.")


class _Tokenizer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.is_unterminated = False
        """A quotation mark is not closed; there are no words after it."""

    def rest(self) -> str:
        return self._text[self._at :].strip()

    def peek(self) -> str | None:
        found = _WORD.match(self._text, self._begin())
        return None if found is None else found[0]

    def next(self) -> str | None:
        begin = self._begin()
        found = _WORD.match(self._text, begin)
        if found is None:
            self.is_unterminated = self.is_unterminated or begin < len(self._text)
            return None
        self._at = found.end()
        self.is_unterminated = self._at < len(self._text) and not self._text[self._at].isspace()
        return found[0]

    def name(self) -> str | None:
        """The next word without the quotation marks around it."""
        word = self.next()
        if word is None or not word.startswith('"'):
            return word
        value = _value(word)
        return value if isinstance(value, str) else None

    def _begin(self) -> int:
        at = self._at
        while at < len(self._text) and self._text[at].isspace():
            at += 1
        return at
