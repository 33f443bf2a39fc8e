"""`palaver peers` with a running node."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.control.server.commands import commands
from bridge.control.socket import ControlSocket
from bridge.peers.commands import commands as peer_commands
from tests.bridge.cli.conftest import OperatedNode, Palaver
from tests.bridge.cli.test_queue import TIMEOUT, queued_event
from tests.bridge.connectors.cis.cis_nodes import CisNode
from tests.bridge.connectors.cis.peered_nodes import peered_nodes
from tests.support.loopback_server import Certificates
from tests.support.postgres import Server
from tests.support.tls import Authority


async def test_peers_are_listed(operated: OperatedNode) -> None:
    """With the source from which they are known, and their failures."""
    await queued_event(operated)
    result = await operated.palaver("peers", "list")
    for words in ("there.test", "configuration, 1 room", "backing off", "answered 503"):
        assert words in result.out
    assert "No other server is known." in (await operated.palaver("peers", "list", "--search", "nobody")).out
    assert (await operated.json("peers", "list"))["peers"][0]["server"] == "there.test"


@pytest.mark.parametrize("which", ["there.test", "--all"])
async def test_a_peer_is_retried(operated: OperatedNode, which: str) -> None:
    """The queue is sent when the peer is available again."""
    event_id = await queued_event(operated)
    schedule = operated.node.outbox._senders["there.test"]._machine._schedule  # type: ignore[union-attr] # it runs
    schedule._attempted_at -= 10_000
    operated.there.is_down = False
    result = await operated.palaver("peers", "retry", which)
    assert "there.test is retried now." in result.out
    async with asyncio.timeout(TIMEOUT):
        await operated.there.until(lambda came, _: came == event_id)


async def test_retry_reports_empty_queues(operated: OperatedNode) -> None:
    """There is nothing to send then."""
    assert "All queues are empty." in (await operated.palaver("peers", "retry", "--all")).out
    assert "has an empty queue" in (await operated.palaver("peers", "retry", "there.test")).out


@pytest.mark.parametrize("words", [[], ["a.test", "--all"]])
def test_retry_needs_a_server_or_all(palaver: Palaver, words: list[str]) -> None:
    """Not both."""
    result = palaver("peers", "retry", *words)
    assert (result.code, "--all" in result.err) == (1, True)


async def test_a_peer_is_checked(operated: OperatedNode) -> None:
    """Each step has a mark. With a fault the exit code is 1."""
    result = await operated.palaver("peers", "check", "there.test")
    assert (result.code, "It accepts the signature of here.test." in result.out) == (0, True)
    assert "there.test may work" in result.out
    operated.there.is_down = True
    result = await operated.palaver("peers", "check", "there.test")
    assert (result.code, "✗ keys" in result.out, "→" in result.out) == (1, True, True)
    code = (await operated.palaver("peers", "check", "a[bold]\x1b[2J", "--json")).json
    assert code["verdict"] == "fault"
    assert "a[bold]\\x1b[2J is not" in (await operated.palaver("peers", "check", "a[bold]\x1b[2J")).out


async def test_a_node_can_check_itself(operated: OperatedNode) -> None:
    """As other servers see it."""
    assert (await operated.json("peers", "check", "--self"))["server"] == "here.test"


@pytest.mark.parametrize("words", [[], ["a.test", "--self"]])
def test_check_needs_a_server_or_self(palaver: Palaver, words: list[str]) -> None:
    """Not both."""
    result = palaver("peers", "check", *words)
    assert (result.code, "--self" in result.err) == (1, True)


@dataclass
class Peered(OperatedNode):
    here: CisNode


@pytest.fixture
async def peered(
    palaver: Palaver, tmp_path: Path, postgres_server: Server, migrated_template: str
) -> AsyncIterator[Peered]:
    """Two nodes that do not federate yet. The first has `file.test` in its configuration."""
    data = tmp_path / "data"
    data.mkdir()
    async with peered_nodes(postgres_server, migrated_template, Certificates(tmp_path)) as nodes:
        nodes.in_file["here.test"] = [{"node_id": "file.test"}]
        here, there = await nodes.strangers("here.test", "there.test")
        await there.local_agents.register("worker")
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
    """With its URL and its certificate authority. AgentsNode are exchanged at once."""
    words = ("there.test", (tmp_path / "url").read_text(), "--authority", "ca.pem", "--namespace", "default")
    result = await peered.palaver("peers", "add", *words)
    assert (result.code, result.out.splitlines()[0]) == (0, "there.test is a peer: this node exchanges agents with it.")
    await peered.here.wait_online("worker@there.test")
    assert (await peered.json("peers", "add", *words))["changed"] is False
    assert "Nothing has changed." in (await peered.palaver("peers", "add", *words)).out
    listed = (await peered.palaver("peers", "list")).out
    for part in ("exchanges agents", "there.test", "added", "file.test", "configuration", "peers of agents"):
        assert part in listed


async def test_trust_can_be_changed_and_a_peer_removed(peered: Peered) -> None:
    """Each command prints the resulting state."""
    assert "is not a peer" in (await peered.palaver("peers", "remove", "there.test")).out
    result = await peered.palaver("peers", "add", "bad.test", "--untrusted")
    assert result.out == "bad.test is added as untrusted: its requests are refused.\n"
    result = await peered.palaver("peers", "trust", "file.test", "--no")
    assert result.out.startswith("file.test is not trusted: no agents are exchanged")
    assert "configuration, trust changed" in (await peered.palaver("peers", "list")).out
    result = await peered.palaver("peers", "trust", "bad.test")
    assert result.out == "bad.test is trusted: this node exchanges agents with it.\n"
    result = await peered.palaver("peers", "remove", "bad.test")
    assert result.out == "bad.test is no longer a peer: no agents are exchanged with it.\n"
    result = await peered.palaver("peers", "remove", "file.test")
    assert result.out == "The configuration of file.test applies again: it is trusted.\n"
    assert (await peered.json("peers", "remove", "bad.test"))["changed"] is False
    result = await peered.palaver("peers", "remove", "file.test")
    assert (result.code, "belongs to the file" in result.err) == (1, True)
    result = await peered.palaver("peers", "trust", "nobody\x1b[2J.test", "--json")
    assert (result.code, "is not a peer" in result.json["error"]["problem"]) == (1, True)
    assert "\x1b" not in (await peered.palaver("peers", "trust", "nobody\x1b[2J.test")).err


async def test_a_published_node_can_be_added(peered: Peered) -> None:
    """With all options of the profile."""
    words = ["old.test", "http://10.0.0.3:7676", "--profile", "cis-1.1", "--network", "10.0.0.0/24"]
    words += ["--signing-key", "ab" * 32, "--require-signature"]
    answer = await peered.json("peers", "add", *words)
    assert (answer["profile"], answer["networks"]) == ("cis-1.1", ["10.0.0.0/24"])
    assert (answer["has_signing_key"], answer["require_signature"]) == (True, True)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.pem", None, "could not be read"),
        ("empty.pem", b"", "contains no certificate"),
        ("key.pem", Authority().issued.key_pem, "contains a private key"),
        ("large.pem", b"x" * 100_000, "more than 64 KiB"),
        ("binary.pem", bytes(range(256)), "contains no certificate"),
        (".", None, "could not be read"),
    ],
    # The default ids have the content, which is a new key in each process.
    ids=["missing", "empty", "key", "large", "binary", "directory"],
)
def test_a_file_without_certificates_is_refused(
    palaver: Palaver, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    """Before the node is asked, and without printing its content."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    result = palaver("peers", "add", "b.test", "--authority", name)
    assert (result.code, sentence in result.err) == (1, True)
    assert "BEGIN" not in result.err
