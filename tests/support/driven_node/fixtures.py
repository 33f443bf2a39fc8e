"""The fixtures `driven_node`, shared by the tests of a worker, and `make_driven_node` for a test that needs
its own node."""

import asyncio
import json
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Generator, Sequence
from pathlib import Path

import pytest

from storage.connect import DatabaseAddress
from tests.support.driven_node.process import DrivenNode
from tests.support.driven_node.walking import Sides
from tests.support.ports import lasting_port
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority


class DrivenNodeFactory:
    """Creates driven nodes with certificates of one authority, which they trust, and stops all of them."""

    def __init__(self, command: Path, authority: Authority) -> None:
        self._command = command
        # Not below the directory of the test: the path of a Unix socket has 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="palaver-nodes-"))
        self._authority = authority
        self._trusted = authority.write(self._directory, "ca")
        self.made: list[DrivenNode] = []

    async def __call__(
        self,
        peers: Sequence[str],
        *,
        database: DatabaseAddress | None = None,
        host: str = "localhost",
        start: bool = True,
    ) -> DrivenNode:
        """Create a node that federates with these servers only. Without a database it starts its own
        Postgres."""
        port = lasting_port()
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
        try:
            await asyncio.gather(*(node.clean_up() for node in self.made))
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the warnings of the driven nodes to the report of a failed test."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {})
        made = used["make_driven_node"].made if "make_driven_node" in used else []
        for node in [*([used["driven_node"]] if "driven_node" in used else []), *made]:
            lines = "\n".join(json.dumps(line) for line in node.complaints()[-20:])
            report.sections.append((f"the node {node.server_name}", lines))
    return report


@pytest.fixture
async def make_driven_node(palaver: Path, authority: Authority) -> AsyncIterator[DrivenNodeFactory]:
    """Creates driven nodes that are stopped at the end of the test."""
    factory = DrivenNodeFactory(palaver, authority)
    try:
        yield factory
    finally:
        await factory.clean_up()


@pytest.fixture
async def quiet_node(driven_node: DrivenNode) -> AsyncIterator[DrivenNode]:
    """The shared node. The test fails if the node logs a warning."""
    driven_node.begin_test()
    yield driven_node
    assert driven_node.complaints() == []


@pytest.fixture(params=["here", "there"])
async def sides(request: pytest.FixtureRequest, quiet_node: DrivenNode, synapse: Synapse) -> Sides:
    """The owner of a room, a user of the other server who joins it, and a second user of that server."""
    name = secrets.token_hex(4)
    ours, ours_too = [await quiet_node.user(f"{one}-{name}") for one in ("alice", "anna")]
    theirs, theirs_too = await synapse.person(), await synapse.person()
    return (ours, theirs, theirs_too) if request.param == "here" else (theirs, ours, ours_too)


@pytest.fixture(scope="session")
def third_server() -> str:
    """The name of a server that the driven node of this worker admits, and that a test may start."""
    return f"localhost:{lasting_port()}"


@pytest.fixture(scope="session")
async def driven_node(
    palaver: Path,
    authority: Authority,
    postgres_server: Server,
    migrated_template: str,
    synapse: Synapse,
    third_server: str,
) -> AsyncIterator[DrivenNode]:
    """A node shared by all tests of this worker, which federates with `synapse` and `third_server`. Tests
    must not stop it."""
    factory = DrivenNodeFactory(palaver, authority)
    database = await postgres_server.create(migrated_template)
    try:
        yield await factory([synapse.server_name, third_server], database=database)
    finally:
        await factory.clean_up()
        await postgres_server.drop(database)
