"""The command `palaver`."""

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
    """Each with a description."""
    result = palaver("--help")
    assert result.code == 0
    for command in COMMANDS:
        assert re.search(rf"\b{command}\s+[A-Z]", result.out), command


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
LEAVES = [[command, *leaf] for command in COMMANDS for leaf in [[each] for each in GROUPS.get(command, [])] or [[]]]


@pytest.mark.parametrize("words", LEAVES, ids=" ".join)
def test_every_command_has_json_output(palaver: Palaver, words: list[str]) -> None:
    """Programs need no other output."""
    result = palaver(*words, "--help")
    assert result.code == 0
    assert "--json" in result.out


def test_the_version_is_that_of_the_distribution(palaver: Palaver) -> None:
    """Bug reports begin with it."""
    assert re.fullmatch(r"palaver \d+\.\d+\.\d+\n", palaver("--version").out)


def test_an_error_is_a_message_without_a_traceback(palaver: Palaver) -> None:
    """On standard error, or as JSON on standard output."""
    result = palaver("status", "--config", "absent.toml")
    assert result.code == 1
    assert "The file absent.toml does not exist." in result.err
    assert "palaver init --config absent.toml" in result.err
    assert "Traceback" not in result.err
    result = palaver("status", "--config", "absent.toml", "--json")
    assert (result.code, result.json["error"]["problem"]) == (1, "The file absent.toml does not exist.")


def test_an_unknown_command_is_an_error(palaver: Palaver) -> None:
    """The exit code is that of wrong usage."""
    assert palaver("fly").code == 2
