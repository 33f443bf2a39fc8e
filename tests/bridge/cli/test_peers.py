"""`palaver peers`, from the words to the node and back."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.control.server.commands import commands
from bridge.control.socket import ControlSocket
from bridge.peers.commands import commands as peer_commands
from tests.bridge.cli.conftest import Operated, Palaver
from tests.bridge.cli.test_queue import TIMEOUT, waiting
from tests.bridge.connectors.cis.cis_nodes import CisNode
from tests.bridge.connectors.cis.peered_nodes import peered_nodes
from tests.support.loopback_server import Certificates
from tests.support.postgres import Server
from tests.support.tls import Authority


async def test_peers_are_listed(operated: Operated) -> None:
    """With what connects us, and what keeps us apart."""
    await waiting(operated)
    said = await operated.palaver("peers", "list")
    for words in ("there.test", "configuration, 1 room", "backing off", "answered 503"):
        assert words in said.out
    assert "No server is known." in (await operated.palaver("peers", "list", "--search", "nobody")).out
    assert (await operated.json("peers", "list"))["peers"][0]["server"] == "there.test"


@pytest.mark.parametrize("which", ["there.test", "--all"])
async def test_a_peer_is_tried_again(operated: Operated, which: str) -> None:
    """After it was put right."""
    event_id = await waiting(operated)
    schedule = operated.node.outbox._senders["there.test"]._machine._schedule  # type: ignore[union-attr] # it runs
    schedule._attempted_at -= 10_000
    operated.there.is_down = False
    said = await operated.palaver("peers", "retry", which)
    assert "there.test is tried now." in said.out
    async with asyncio.timeout(TIMEOUT):
        await operated.there.until(lambda came, _: came == event_id)


async def test_nobody_is_tried_for_nothing(operated: Operated) -> None:
    """And the person is told."""
    assert "Nothing waits for anybody." in (await operated.palaver("peers", "retry", "--all")).out
    assert "nothing waits for it" in (await operated.palaver("peers", "retry", "there.test")).out


@pytest.mark.parametrize("words", [[], ["a.test", "--all"]])
def test_who_is_to_be_tried_must_be_said(palaver: Palaver, words: list[str]) -> None:
    """One, or all."""
    said = palaver("peers", "retry", *words)
    assert (said.code, "--all" in said.err) == (1, True)


async def test_a_peer_is_checked(operated: Operated) -> None:
    """Step by step, with a mark for each; a fault makes the exit code one."""
    said = await operated.palaver("peers", "check", "there.test")
    assert (said.code, "It believes what here.test signs." in said.out) == (0, True)
    assert "there.test works, or may" in said.out
    operated.there.is_down = True
    said = await operated.palaver("peers", "check", "there.test")
    assert (said.code, "✗ keys" in said.out, "→" in said.out) == (1, True, True)
    code = (await operated.palaver("peers", "check", "a[bold]\x1b[2J", "--json")).json
    assert code["verdict"] == "fault"
    assert "a[bold]\\x1b[2J is not" in (await operated.palaver("peers", "check", "a[bold]\x1b[2J")).out


async def test_a_node_checks_itself(operated: Operated) -> None:
    """As others see it."""
    assert (await operated.json("peers", "check", "--self"))["server"] == "here.test"


@pytest.mark.parametrize("words", [[], ["a.test", "--self"]])
def test_what_is_to_be_checked_must_be_said(palaver: Palaver, words: list[str]) -> None:
    """One of both."""
    said = palaver("peers", "check", *words)
    assert (said.code, "--self" in said.err) == (1, True)


@dataclass
class Peered(Operated):
    here: CisNode


@pytest.fixture
async def peered(
    palaver: Palaver, tmp_path: Path, postgres_server: Server, migrated_template: str
) -> AsyncIterator[Peered]:
    """Two nodes that are closed to each other, the first of which knows `file.test` by its configuration."""
    data = tmp_path / "data"
    data.mkdir()
    async with peered_nodes(postgres_server, migrated_template, Certificates(tmp_path)) as nodes:
        nodes.in_file["here.test"] = [{"node_id": "file.test"}]
        here, there = await nodes.strangers("here.test", "there.test")
        await there.hands.come("worker")
        await nodes.add("there.test", "here.test")
        (tmp_path / "ca.pem").write_bytes(nodes.authority_of("there.test"))
        (tmp_path / "url").write_text(f"https://{nodes._address_of('there.test')}")
        parts = here.node.homeserver
        control = ControlSocket(data, {**commands(parts), **peer_commands(nodes.peers["here.test"], parts)})
        await control.start()
        try:
            yield Peered(here.node, there.node, palaver, here)
        finally:
            await control.stop()


async def test_a_peer_is_added(peered: Peered, tmp_path: Path) -> None:
    """With where it is and whom to believe; agents are exchanged at once."""
    words = ("there.test", (tmp_path / "url").read_text(), "--authority", "ca.pem", "--namespace", "default")
    said = await peered.palaver("peers", "add", *words)
    assert (said.code, said.out.splitlines()[0]) == (
        0,
        "there.test is a peer, and agents are exchanged with it.",
    )
    await peered.here.sees("worker@there.test")
    assert (await peered.json("peers", "add", *words))["changed"] is False
    assert "It was so already." in (await peered.palaver("peers", "add", *words)).out
    listed = (await peered.palaver("peers", "list")).out
    for part in ("exchanges agents", "there.test", "added", "file.test", "configuration", "peers of agents"):
        assert part in listed


async def test_a_peer_is_trusted_or_not_and_goes(peered: Peered) -> None:
    """Each time the person reads what holds now."""
    assert "is no peer" in (await peered.palaver("peers", "remove", "there.test")).out
    said = await peered.palaver("peers", "add", "bad.test", "--untrusted")
    assert said.out == "bad.test is named, and refused.\n"
    said = await peered.palaver("peers", "trust", "file.test", "--no")
    assert said.out.startswith("file.test is not trusted: nothing is exchanged with it")
    assert "configuration, but for its trust" in (await peered.palaver("peers", "list")).out
    said = await peered.palaver("peers", "trust", "bad.test")
    assert said.out == "bad.test is trusted, and agents are exchanged with it.\n"
    said = await peered.palaver("peers", "remove", "bad.test")
    assert said.out == "bad.test is no peer any more: nothing is exchanged with it.\n"
    said = await peered.palaver("peers", "remove", "file.test")
    assert said.out == "What the configuration says of file.test counts again: it is trusted.\n"
    assert (await peered.json("peers", "remove", "bad.test"))["changed"] is False
    said = await peered.palaver("peers", "remove", "file.test")
    assert (said.code, "belongs to the file" in said.err) == (1, True)
    said = await peered.palaver("peers", "trust", "nobody\x1b[2J.test", "--json")
    assert (said.code, "is no peer" in said.json["error"]["problem"]) == (1, True)
    assert "\x1b" not in (await peered.palaver("peers", "trust", "nobody\x1b[2J.test")).err


async def test_a_published_node_is_a_peer(peered: Peered) -> None:
    """With all that can be said of one."""
    words = ["old.test", "http://10.0.0.3:7676", "--profile", "cis-1.1", "--network", "10.0.0.0/24"]
    words += ["--signing-key", "ab" * 32, "--require-signature"]
    answer = await peered.json("peers", "add", *words)
    assert (answer["profile"], answer["networks"]) == ("cis-1.1", ["10.0.0.0/24"])
    assert (answer["has_signing_key"], answer["require_signature"]) == (True, True)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.pem", None, "could not be read"),
        ("empty.pem", b"", "has no certificate"),
        ("key.pem", Authority().issued.key_pem, "has a private key"),
        ("large.pem", b"x" * 100_000, "more than 64 KiB"),
        ("binary.pem", bytes(range(256)), "has no certificate"),
        (".", None, "could not be read"),
    ],
)
def test_a_file_without_certificates_is_refused(
    palaver: Palaver, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    """Before anything is sent; what is in it is not shown."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    said = palaver("peers", "add", "b.test", "--authority", name)
    assert (said.code, sentence in said.err) == (1, True)
    assert "BEGIN" not in said.err
