"""Published clients of offices, each version in its own processes, with their published server: the behaviour
that Palaver has to serve, and a check of the harness."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.smcp import VERSIONS, NotInstalled, Peers, ReferenceServer, Refused
from tests.support.smcp.environments import PROTOCOLS, python
from tests.support.smcp.walk import STEPS, Expectations, Pair, Step, arrive
from tests.support.smcp.walk_membership import connect, refused_handshake, walk_lost_computer, walk_same_name

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("published smcp")]

OLDER = [version for version in VERSIONS if version != "0.4.2"]


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    async with Peers(tmp_path) as peers:
        yield peers


@pytest.fixture(scope="module")
async def newest(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReferenceServer]:
    """A server that no test stops."""
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await peers.server("0.4.2")


def expected(server: ReferenceServer) -> Expectations:
    """The expectations for the server of this version."""
    return Expectations(
        url=server.url,
        token=server.token,
        office=f"kitchen-{secrets.token_hex(4)}",
        # It refuses a cancel whose request has another name than that in the office.
        agent_id="planner",
        tells_unknown=server.version != "0.1.2",
        relays_config=server.version != "0.1.2",
    )


async def paired(peers: Peers, version: str) -> Pair:
    agent, computer, server = await asyncio.gather(peers.agent(version), peers.computer(version), peers.server(version))
    pair = Pair(peers, agent, computer, expected(server))
    await pair.walk(arrive)
    return pair


@pytest.fixture(scope="module", params=VERSIONS)
async def pair(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
    async with Peers(tmp_path_factory.mktemp("smcp")) as peers:
        yield await paired(peers, request.param)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
async def test_step(pair: Pair, step: Step) -> None:
    """Each step, for each version, in an office of that version's server."""
    await pair.walk(step)


async def test_same_name(pair: Pair) -> None:
    """Two Computers of one name cannot be in one office."""
    other = await pair.peers.computer(pair.computer.version)
    await walk_same_name(pair.agent, pair.computer, pair.expectations, other)


async def test_lost_computer(peers: Peers) -> None:
    """The newest server answers the caller at once."""
    await (await paired(peers, "0.4.2")).walk(walk_lost_computer)


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("kind", ["agent", "computer"])
async def test_version_handshake(newest: ReferenceServer, peers: Peers, version: str, kind: str) -> None:
    """A version of another minor number is refused before Socket.IO begins, in words that its client knows.

    One that sends no version gets to know why only from the body of the answer, which its client hides.
    """
    x = expected(newest)
    peer = await (peers.agent(version) if kind == "agent" else peers.computer(version))
    told, body = await refused_handshake(peer, x, attempts=30)
    if version == "0.1.2":
        assert told["type"] == "ConnectionError"
        assert body == {"code": 400, "message": "Missing a2c_version query parameter"}
        return
    assert told["type"] == "ProtocolVersionError"
    assert body == {
        "code": 4008,
        "message": "Protocol version mismatch",
        "server_version": "0.4.0",
        "client_version": PROTOCOLS[version],
        "min_supported": "0.4.0",
        "max_supported": "0.4.999",
    }


async def test_wrong_token(pair: Pair, peers: Peers) -> None:
    """An unknown credential is a connect error of Socket.IO, for both clients."""
    version, x = pair.agent.version, pair.expectations
    agent, computer = await peers.agent(version), await peers.computer(version)
    for peer in (agent, computer):
        with pytest.raises(Refused, match="failed to connect"):
            await connect(peer, replace(x, token="wrong"))
        assert await peer.until("connect_error") == {"message": "Connection refused by server"}


async def test_a_restarted_server(peers: Peers) -> None:
    """Clients reconnect to a restarted server by themselves, but to no office."""
    pair = await paired(peers, "0.4.2")
    [server] = [peer for peer in peers.all if getattr(peer, "url", None) == pair.expectations.url]
    await server.kill()
    await pair.agent.until("disconnect")
    await pair.computer.until("disconnect")
    await server.start()  # type: ignore[attr-defined] # it is the server
    await pair.agent.until("connect")
    await pair.computer.until("connect")


async def test_a_process_that_ends(newest: ReferenceServer, peers: Peers) -> None:
    """A pending request to it fails at once, and the error says where to look."""
    x = expected(newest)
    computer = await peers.computer("0.4.2")
    waiting = asyncio.create_task(computer.until("notify:enter_office"))
    connecting = asyncio.create_task(connect(computer, x))
    await computer.until("connect")
    assert computer.process is not None
    computer.process.kill()
    await asyncio.wait({waiting, connecting})
    with pytest.raises(AssertionError, match=r"(?s)ended:.*Connecting to SMCP server"):
        await waiting
    with pytest.raises(AssertionError, match="ended"):
        await connect(computer, x)


def test_a_version_that_is_not_installed() -> None:
    """The message says what to do."""
    with pytest.raises(NotInstalled, match="make install"):
        python("0.0.1")
