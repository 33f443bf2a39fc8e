"""The commands that people can send, and their parser."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.commands import (
    COMMANDS,
    InvalidArguments,
    Invocation,
    Parsed,
    UnknownCommand,
    page_number,
    parse,
    strip_prefix,
)
from bridge.people.permissions import Level


def test_all_commands_are_listed() -> None:
    """All that there is."""
    assert list(COMMANDS) == ["help", "agents", "agent", "rooms", "task", "cancel", "peers"]
    assert [name for name, one in COMMANDS.items() if one.level is Level.LOOK] == [
        "help",
        "agents",
        "agent",
        "rooms",
        "task",
    ]
    assert [name for name, one in COMMANDS.items() if one.is_sensitive] == ["peers"]


@pytest.mark.parametrize(
    ("line", "parsed"),
    [
        ("", Invocation(COMMANDS["help"])),
        ("  \n", Invocation(COMMANDS["help"])),
        ("help", Invocation(COMMANDS["help"])),
        ("HELP Agents", Invocation(COMMANDS["help"], ("Agents",))),
        ("agents", Invocation(COMMANDS["agents"])),
        ("agents claude 2", Invocation(COMMANDS["agents"], ("claude", "2"))),
        ("agents a b c", InvalidArguments(COMMANDS["agents"])),
        ("agent", InvalidArguments(COMMANDS["agent"])),
        ("agent worker-1@here", Invocation(COMMANDS["agent"], ("worker-1@here",))),
        ("cancel", InvalidArguments(COMMANDS["cancel"])),
        ("cancel t-1", Invocation(COMMANDS["cancel"], ("t-1",))),
        ("cancel t-1  it is\n too late ", Invocation(COMMANDS["cancel"], ("t-1", "it is\n too late"))),
        ("peer", UnknownCommand("peer", "peers")),
        ("agnets", UnknownCommand("agnets", "agents")),
        ("sudo", UnknownCommand("sudo", None)),
        ("x" * 10_000, UnknownCommand("x" * 39 + "…", None)),
    ],
)
def test_a_command_line_is_parsed(line: str, parsed: Parsed) -> None:
    """An invalid line results in a suggestion or the usage."""
    assert parse(line) == parsed


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("!agents", ""),
        ("!agents help", "help"),
        ("!agents\nhelp", "help"),
        ("!agentshelp", None),
        ("say !agents help", None),
        ("", None),
    ],
)
def test_the_prefix_is_removed(body: str, line: str | None) -> None:
    """It must be a separate word at the beginning."""
    assert strip_prefix(body) == line


@given(st.text())
def test_any_line_is_parsed(line: str) -> None:
    """An invocation has a valid number of arguments."""
    parsed = parse(line)
    if isinstance(parsed, Invocation):
        most = parsed.command.most
        assert len(parsed.arguments) >= parsed.command.least
        assert len(parsed.arguments) <= (parsed.command.least + 1 if most is None else most)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("20", 20), ("0", None), ("-1", None), ("²", None), ("9" * 7, None), ("", None), ("a", None)],
)
def test_page_numbers_are_parsed(text: str, number: int | None) -> None:
    """Other text is refused."""
    assert page_number(text) == number
