"""How a line is read as a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.commands import (
    COMMANDS,
    NoSuchCommand,
    Order,
    Parsed,
    WrongArguments,
    behind_prefix,
    page_number,
    parse,
)
from bridge.people.permissions import Level


def test_the_table() -> None:
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
        ("", Order(COMMANDS["help"])),
        ("  \n", Order(COMMANDS["help"])),
        ("help", Order(COMMANDS["help"])),
        ("HELP Agents", Order(COMMANDS["help"], ("Agents",))),
        ("agents", Order(COMMANDS["agents"])),
        ("agents claude 2", Order(COMMANDS["agents"], ("claude", "2"))),
        ("agents a b c", WrongArguments(COMMANDS["agents"])),
        ("agent", WrongArguments(COMMANDS["agent"])),
        ("agent worker-1@here", Order(COMMANDS["agent"], ("worker-1@here",))),
        ("cancel", WrongArguments(COMMANDS["cancel"])),
        ("cancel t-1", Order(COMMANDS["cancel"], ("t-1",))),
        ("cancel t-1  it is\n too late ", Order(COMMANDS["cancel"], ("t-1", "it is\n too late"))),
        ("peer", NoSuchCommand("peer", "peers")),
        ("agnets", NoSuchCommand("agnets", "agents")),
        ("sudo", NoSuchCommand("sudo", None)),
        ("x" * 10_000, NoSuchCommand("x" * 39 + "…", None)),
    ],
)
def test_a_line_is_read(line: str, parsed: Parsed) -> None:
    """What it is not, it is told to be: a hint at what was meant, or how it is written."""
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
def test_the_prefix(body: str, line: str | None) -> None:
    """A word of its own, at the beginning."""
    assert behind_prefix(body) == line


@given(st.text())
def test_every_line_is_something(line: str) -> None:
    """And an order has as many arguments as its command takes."""
    parsed = parse(line)
    if isinstance(parsed, Order):
        most = parsed.command.most
        assert len(parsed.arguments) >= parsed.command.least
        assert len(parsed.arguments) <= (parsed.command.least + 1 if most is None else most)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("20", 20), ("0", None), ("-1", None), ("²", None), ("9" * 7, None), ("", None), ("a", None)],
)
def test_the_number_of_a_page(text: str, number: int | None) -> None:
    """One that there could be."""
    assert page_number(text) == number
