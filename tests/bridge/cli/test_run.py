"""`palaver run`, what it prints; the life itself is tested with processes."""

import asyncio
from pathlib import Path
from typing import Any

from bridge.cli.run import event_loop_factory, next_steps
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


def test_a_new_user_is_told_what_to_do_next() -> None:
    """Addresses that work as they stand, the commands to look around, and how to be reached by others."""
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


def test_what_is_advised_is_of_the_node_that_was_started() -> None:
    """Without its configuration the commands would look for another one."""
    text = next_steps(Config(), SUMMARY, Path("my node/palaver.toml"))
    assert " status -c 'my node/palaver.toml' " in text
    assert " doctor -c 'my node/palaver.toml' " in text


def test_what_is_done_already_is_not_advised() -> None:
    """A node with a public name and a certificate needs neither."""
    summary = {**SUMMARY, "server_name": "a.example", "certificate": "configured", "metrics": None}
    text = next_steps(Config(server_name="a.example"), summary)
    assert "init --server-name" not in text
    assert "ca.pem" not in text
    assert "figures" not in text


def test_the_loop_is_a_loop() -> None:
    """uvloop's where it installs, else asyncio's own."""
    factory = event_loop_factory()
    loop = factory() if factory is not None else asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        loop.close()


def test_a_guest_is_refused_before_anything_is_made(palaver: Palaver) -> None:
    """Without its registration there is no database: the node can still become a homeserver."""
    section = '[appservice]\nhomeserver = "http://127.0.0.1:8008"\ndomain = "their.server"\n'
    own = f"[listener]\nport = {lasting_port()}\n"
    Path("palaver.toml").write_text(f'matrix_side = "appservice"\n{section}{own}')
    said = palaver("run")
    assert (said.code, "There is no registration at" in said.err) == (1, True)
    assert not Path("data", "postgres").exists()


def test_a_guest_says_where_its_agents_are() -> None:
    """It has no keys to show to other servers, and needs no public name."""
    guest = {
        **SUMMARY,
        "guest_of": "their.server",
        "homeserver": "http://127.0.0.1:8008",
        "ghosts": "@_agent_…:their.server",
    }
    text = next_steps(Config(), guest)
    for part in ("their.server at http://127.0.0.1:8008", "@_agent_…:their.server", "health/ready"):
        assert part in text
    for part in ("_matrix/key", "init --server-name"):
        assert part not in text
