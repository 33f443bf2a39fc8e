"""What a person may ask the node itself: a table, and how a line is read by it."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from bridge.people.permissions import Level
from bridge.people.texts.text import one_line

PREFIX: Final = "!agents"
LONGEST: Final = 2_000
"""Characters of a line that are read."""


@dataclass(frozen=True, slots=True)
class Command:
    """`most` is None for one whose last argument goes on to the end. A sensitive one takes a second
    permission."""

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
    Command("help", "[COMMAND]", "what can be asked, and how", most=1),
    Command("agents", "[WORD] [PAGE]", "the agents, or those in whose line the word is", most=2),
    Command("agent", "ADDRESS", "what is known of one agent, and how it is reached", least=1, most=1),
    Command("rooms", "[PAGE]", "the rooms in which agents work, and an invite to them", most=1),
    Command("task", "[ID]", "how a task stands, or how yours do", most=1),
    Command(
        "cancel", "ID [REASON]", "take back a task of yours, or as an administrator any", Level.WORK, 1, None
    ),
    Command("peers", "[PAGE]", "the nodes on which agents live", Level.ADMINISTER, most=1, is_sensitive=True),
)
COMMANDS: Final[Mapping[str, Command]] = {command.name: command for command in _COMMANDS}


@dataclass(frozen=True, slots=True)
class Order:
    """A command, and as many arguments as it takes."""

    command: Command
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NoSuchCommand:
    """`meant` is one that is written like it."""

    word: str
    meant: str | None


@dataclass(frozen=True, slots=True)
class WrongArguments:
    command: Command


Parsed: TypeAlias = Order | NoSuchCommand | WrongArguments


def parse(line: str) -> Parsed:
    """With nothing in it, it asks for help."""
    words = line[:LONGEST].split()
    if not words:
        return Order(COMMANDS["help"])
    name, arguments = words[0].lower(), words[1:]
    command = COMMANDS.get(name)
    if command is None:
        meant = difflib.get_close_matches(name[:40], COMMANDS, n=1)
        return NoSuchCommand(one_line(words[0], 40), meant[0] if meant else None)
    if len(arguments) < command.least:
        return WrongArguments(command)
    if command.most is not None and len(arguments) > command.most:
        return WrongArguments(command)
    if command.most is None and len(arguments) > command.least:
        # What is behind the arguments that it must have is one more, with its blanks.
        rest = line[:LONGEST].split(maxsplit=command.least + 1)[command.least + 1]
        arguments = [*arguments[: command.least], rest.strip()]
    return Order(command, tuple(arguments))


def behind_prefix(body: str, prefix: str = PREFIX) -> str | None:
    """The line of a command in a room where it needs the prefix; None for what is none."""
    if not body.startswith(prefix):
        return None
    rest = body[len(prefix) :]
    return rest.strip() if not rest or rest[0].isspace() else None


def page_number(text: str) -> int | None:
    """None for what is no number of a page."""
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 6 and int(text) > 0 else None
