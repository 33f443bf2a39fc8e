"""What `palaver run` prints. The node itself is tested in tests/process."""

import asyncio
from pathlib import Path
from typing import Any

from bridge.cli.run import event_loop_factory, next_steps
from bridge.config.agents import Agent
from bridge.config.config import Config
from tests.bridge.cli.conftest import Palaver
from tests.support.ports import lasting_port

SUMMARY: dict[str, Any] = {
    "server_name": "localhost:7676",
    "version": "0.1.0",
    "addresses": ["127.0.0.1:7676", "[::1]:7676"],
    "metrics": "http://127.0.0.1:7677/metrics",
    "data_dir": "data",
    "database": {"kind": "embedded"},
    "certificate": "development",
}


def test_the_next_steps_are_shown() -> None:
    """Complete URLs, commands to inspect the node, and how to make it public."""
    text = next_steps(Config(), SUMMARY)
    for part in (
        "https://localhost:7676/_matrix/key/v2/server",
        "http://localhost:7676/health/ready",
        "http://127.0.0.1:7677/metrics",
        "status",
        "doctor",
        "init --server-name",
        "tls/ca.pem",
        "Ctrl-C",
    ):
        assert part in text


def test_the_first_agent_can_be_tried() -> None:
    """By a command that can be pasted. A node without agents of its own has none."""
    config = Config(agents=[Agent(id="counter", command=["wc"])])
    assert ' task send counter@localhost:7676 "hello"' in next_steps(config, SUMMARY)
    assert "task send" not in next_steps(Config(), SUMMARY)


def test_the_commands_have_the_configuration_of_the_node() -> None:
    """Without it they would connect to another node."""
    text = next_steps(Config(), SUMMARY, Path("my node/palaver.toml"))
    assert " status -c 'my node/palaver.toml' " in text
    assert " doctor -c 'my node/palaver.toml' " in text


def test_steps_that_are_done_are_not_shown() -> None:
    """A node with a public name and a certificate needs neither."""
    summary = {**SUMMARY, "server_name": "a.example", "certificate": "configured", "metrics": None}
    text = next_steps(Config(server_name="a.example"), summary)
    assert "init --server-name" not in text
    assert "ca.pem" not in text
    assert "  metrics" not in text


def test_the_event_loop_works() -> None:
    """uvloop if it is installed, otherwise asyncio's loop."""
    factory = event_loop_factory()
    loop = factory() if factory is not None else asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        loop.close()


def test_an_appservice_without_a_registration_does_not_start(palaver: Palaver) -> None:
    """No database is created, so the node can still become a homeserver."""
    section = '[appservice]\nhomeserver = "http://127.0.0.1:8008"\ndomain = "their.server"\n'
    own = f"[listener]\nport = {lasting_port()}\n"
    Path("palaver.toml").write_text(f'matrix_side = "appservice"\n{section}{own}')
    result = palaver("run")
    assert (result.code, "There is no registration at" in result.err) == (1, True)
    assert not Path("data", "postgres").exists()


def test_an_appservice_shows_its_homeserver_and_agents() -> None:
    """It has no keys for other servers and needs no public name."""
    summary = {
        **SUMMARY,
        "guest_of": "their.server",
        "homeserver": "http://127.0.0.1:8008",
        "ghosts": "@_agent_…:their.server",
    }
    text = next_steps(Config(), summary)
    for part in ("their.server at http://127.0.0.1:8008", "@_agent_…:their.server", "health/ready"):
        assert part in text
    for part in ("_matrix/key", "init --server-name"):
        assert part not in text
