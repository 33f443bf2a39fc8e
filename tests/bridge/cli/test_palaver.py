"""The command as a whole."""

import re

import pytest

from tests.bridge.cli.conftest import Palaver

COMMANDS = [
    "run",
    "init",
    "doctor",
    "status",
    "migrate",
    "queue",
    "audit",
    "route",
    "tail",
    "task",
    "agents",
    "config",
    "keys",
    "db",
    "peers",
    "rooms",
    "events",
]


def test_help_lists_every_command(palaver: Palaver) -> None:
    """With a sentence each."""
    said = palaver("--help")
    assert said.code == 0
    for command in COMMANDS:
        assert re.search(rf"\b{command}\s+[A-Z]", said.out), command


GROUPS = {
    "config": ["show", "check", "example"],
    "keys": ["show", "rotate"],
    "db": ["shell", "dump", "restore"],
    "task": ["send", "wait", "list", "show", "cancel"],
    "agents": ["list", "show", "remove", "presets", "openapi"],
    "peers": ["list", "check", "retry"],
    "rooms": ["list", "show", "state", "dag", "leave"],
    "events": ["show"],
}
LEAVES = [
    [command, *leaf] for command in COMMANDS for leaf in [[each] for each in GROUPS.get(command, [])] or [[]]
]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_speaks_json(palaver: Palaver, words: list[str]) -> None:
    """A program needs no other output of any of them."""
    said = palaver(*words, "--help")
    assert said.code == 0
    assert "--json" in said.out


def test_the_version_is_that_of_the_distribution(palaver: Palaver) -> None:
    """What a report of a fault begins with."""
    assert re.fullmatch(r"palaver \d+\.\d+\.\d+\n", palaver("--version").out)


def test_a_mistake_is_told_in_a_sentence_and_never_as_a_traceback(palaver: Palaver) -> None:
    """On standard error for a person, on standard output for a program."""
    said = palaver("status", "--config", "absent.toml")
    assert said.code == 1
    assert "There is no file absent.toml." in said.err
    assert "palaver init --config absent.toml" in said.err
    assert "Traceback" not in said.err
    said = palaver("status", "--config", "absent.toml", "--json")
    assert (said.code, said.json["error"]["problem"]) == (1, "There is no file absent.toml.")


def test_an_unknown_command_is_told(palaver: Palaver) -> None:
    """With the exit code of wrong usage."""
    assert palaver("fly").code == 2
