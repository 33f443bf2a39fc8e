"""The fixtures: `driven_node`, shared by a worker's tests, and `make_driven_node` for a test that needs its
own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from storage.address import DatabaseAddress
from tests.support.driven_node.process import DrivenNode
from tests.support.driven_node.walking import Sides
from tests.support.ports import lasting_port
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority


class DrivenNodeFactory:
    """Makes driven nodes, certified by one authority and trusting it, and ends them all."""

    def __init__(self, command: Path, directory: Path, authority: Authority) -> None:
        self._command = command
        self._directory = directory
        self._authority = authority
        directory.mkdir(exist_ok=True)
        self._trusted = authority.write(directory, "ca")
        self.made: list[DrivenNode] = []

    async def __call__(
        self,
        peers: Sequence[str],
        *,
        database: DatabaseAddress | None = None,
        host: str = "localhost",
        start: bool = True,
    ) -> DrivenNode:
        """A node that speaks with these servers alone. Without a database it brings its own Postgres."""
        port = lasting_port()
        # Short: the path of its control socket has at most 100 bytes or so.
        directory = self._directory / str(port)
        directory.mkdir()
        certificate, private_key = self._authority.issue("localhost", "127.0.0.1", "::1").write(
            self._directory, f"node-{port}"
        )
        node = DrivenNode(
            self._command,
            directory,
            port,
            lasting_port(),
            certificate=certificate,
            private_key=private_key,
            trusted=self._trusted,
            peers=peers,
            database=database,
            host=host,
        )
        self.made.append(node)
        if start:
            await node.start()
        return node

    async def clean_up(self) -> None:
        await asyncio.gather(*(node.clean_up() for node in self.made))


@pytest.fixture
async def make_driven_node(
    palaver: Path, tmp_path: Path, authority: Authority
) -> AsyncIterator[DrivenNodeFactory]:
    """Makes driven nodes that are ended with the test, whatever the test does."""
    factory = DrivenNodeFactory(palaver, tmp_path / "n", authority)
    try:
        yield factory
    finally:
        await factory.clean_up()


@pytest.fixture
async def quiet_node(driven_node: DrivenNode) -> AsyncIterator[DrivenNode]:
    """The shared one, which has to do what the test asks of it without a warning."""
    driven_node.begin_test()
    yield driven_node
    assert driven_node.complaints() == []


@pytest.fixture(params=["here", "there"])
async def sides(request: pytest.FixtureRequest, quiet_node: DrivenNode, synapse: Synapse) -> Sides:
    """Whose room it is, who comes into it from the other server, and somebody else on that server."""
    name = secrets.token_hex(4)
    ours, ours_too = [await quiet_node.user(f"{one}-{name}") for one in ("alice", "anna")]
    theirs, theirs_too = await synapse.person(), await synapse.person()
    return (ours, theirs, theirs_too) if request.param == "here" else (theirs, ours, ours_too)


@pytest.fixture(scope="session")
def third_server() -> str:
    """The name of a server that is known to the driven node of this worker, and that a test may start."""
    return f"localhost:{lasting_port()}"


@pytest.fixture(scope="session")
async def driven_node(
    palaver: Path,
    tmp_path_factory: pytest.TempPathFactory,
    authority: Authority,
    postgres_server: Server,
    migrated_template: str,
    synapse: Synapse,
    third_server: str,
) -> AsyncIterator[DrivenNode]:
    """A node for all tests of this worker, which speaks with `synapse` and `third_server`: do not stop it."""
    factory = DrivenNodeFactory(palaver, tmp_path_factory.mktemp("nodes"), authority)
    database = await postgres_server.create(migrated_template)
    try:
        yield await factory([synapse.server_name, third_server], database=database)
    finally:
        await factory.clean_up()
        await postgres_server.drop(database)
