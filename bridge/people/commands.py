"""The commands that people can send to the node, and their parser."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.people.permissions import Level
from bridge.people.texts.text import one_line

PREFIX: Final = "!agents"
LONGEST: Final = 2_000
"""Maximum characters of a command line. The rest is ignored."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command with its usage. `most` is None if its last argument extends to the end of the line. A
    sensitive command also needs an entry in `sensitive` of the configuration."""

    name: str
    arguments: str
    summary: str
    level: Level = Level.LOOK
    least: int = 0
    most: int | None = 0
    is_sensitive: bool = False

    @property
    def usage(self) -> str:
        return f"{self.name} {self.arguments}".strip()


_COMMANDS: Final = (
    Command("help", "[COMMAND]", "list the commands, or explain one", most=1),
    Command("agents", "[WORD] [PAGE]", "list the agents, or those that match a word", most=2),
    Command("agent", "ADDRESS", "show an agent and its route", least=1, most=1),
    Command("rooms", "[PAGE]", "list the rooms of agents, and get an invite to them", most=1),
    Command("task", "[ID]", "show a task, or your latest tasks", most=1),
    Command("cancel", "ID [REASON]", "cancel a task of yours; administrators can cancel any", Level.WORK, 1, None),
    Command("peers", "[PAGE]", "list the nodes with agents", Level.ADMINISTER, most=1, is_sensitive=True),
)
COMMANDS: Final[Mapping[str, Command]] = {command.name: command for command in _COMMANDS}


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command with a valid number of arguments."""

    command: Command
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    """An unknown command. `suggestion` is a command with a similar name."""

    word: str
    suggestion: str | None


@dataclass(frozen=True, slots=True)
class InvalidArguments:
    """A command with an invalid number of arguments."""

    command: Command


Parsed: TypeAlias = Invocation | UnknownCommand | InvalidArguments


def parse(line: str) -> Parsed:
    """Parse a command line. An empty line is the command `help`."""
    words = line[:LONGEST].split()
    if not words:
        return Invocation(COMMANDS["help"])
    name, arguments = words[0].lower(), words[1:]
    command = COMMANDS.get(name)
    if command is None:
        similar = difflib.get_close_matches(name[:40], COMMANDS, n=1)
        return UnknownCommand(one_line(words[0], 40), similar[0] if similar else None)
    if len(arguments) < command.least:
        return InvalidArguments(command)
    if command.most is not None and len(arguments) > command.most:
        return InvalidArguments(command)
    if command.most is None and len(arguments) > command.least:
        # The rest after the required arguments is the last argument, with its blanks.
        rest = line[:LONGEST].split(maxsplit=command.least + 1)[command.least + 1]
        arguments = [*arguments[: command.least], rest.strip()]
    return Invocation(command, tuple(arguments))


def strip_prefix(body: str, prefix: str = PREFIX) -> str | None:
    """Return the command line after the prefix, or None if the text does not begin with the prefix."""
    if not body.startswith(prefix):
        return None
    rest = body[len(prefix) :]
    return rest.strip() if not rest or rest[0].isspace() else None


def page_number(text: str) -> int | None:
    """Parse the number of a page, or return None."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) > 0 else None
