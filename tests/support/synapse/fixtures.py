"""The fixtures `synapse`, shared by the tests of a worker, and `make_synapse` for a test that needs its
own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from storage.connect import DatabaseAddress
from tests.support.ports import lasting_port
from tests.support.synapse.database import Postgres, SQLite
from tests.support.synapse.process import Synapse, environment
from tests.support.tls import Authority


class SynapseFactory:
    """Creates Synapses with certificates of one trusted authority, and stops all of them."""

    def __init__(self, directory: Path, authority: Authority) -> None:
        self._directory = directory
        self._authority = authority
        directory.mkdir(exist_ok=True)
        self.authority_file = authority.write(directory, "ca")
        self.made: list[Synapse] = []

    async def __call__(
        self,
        *,
        start: bool = True,
        postgres: DatabaseAddress | None = None,
        appservices: Sequence[Path] = (),
        trusted: Sequence[Path] = (),
        settings: Mapping[str, Any] | None = None,
        log_level: str = "INFO",
    ) -> Synapse:
        """A Synapse with data of its own, started unless told otherwise.

        `postgres` is a server on which it makes a database of its own; without, it is on SQLite.
        `trusted` are authorities that it trusts besides that of the tests. `settings` replace what the
        configuration says.
        """
        port = lasting_port()
        name = f"synapse-{port}"
        directory = self._directory / name
        database: SQLite | Postgres
        if postgres is None:
            database = SQLite(directory / "homeserver.db")
            await database.fill(environment(), self._make_empty)
        else:
            database = Postgres(postgres, f"{name}-{secrets.token_hex(4)}")
            await database.create()
        synapse = self._describe(directory, port, database, trusted)
        synapse.appservices = appservices
        synapse.settings = settings or {}
        synapse.log_level = log_level
        self.made.append(synapse)
        if start:
            await synapse.start()
            await synapse.settled()
        return synapse

    def _describe(
        self, directory: Path, port: int, database: SQLite | Postgres, trusted: Sequence[Path] = ()
    ) -> Synapse:
        issued = self._authority.issue("localhost", "127.0.0.1", "::1")
        certificate, private_key = issued.write(self._directory, f"synapse-{port}")
        return Synapse(
            directory=directory,
            port=port,
            trusted=(self.authority_file, *trusted),
            certificate=certificate,
            private_key=private_key,
            database=database,
        )

    async def _make_empty(self, file: Path) -> None:
        """Start a Synapse on an empty database to create its schema, stop it, and keep the file."""
        made = self._describe(self._directory / "empty", lasting_port(), SQLite(file))
        try:
            await made.start()
            await made.settled()
            await made.stop()
            # The last to close the database takes its journal into the file.
            assert await made.database.pending_updates() == 0
        finally:
            await made.kill()

    async def clean_up(self) -> None:
        """Stop all of them, even if one fails to stop."""
        ended = await asyncio.gather(*(synapse.clean_up() for synapse in self.made), return_exceptions=True)
        if failed := [error for error in ended if isinstance(error, BaseException)]:
            raise BaseExceptionGroup("a Synapse was not ended well", failed)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the warnings of the Synapses to the report of a failed test."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {})
        made = used["make_synapse"].made if "make_synapse" in used else []
        for synapse in [*([used["synapse"]] if "synapse" in used else []), *made]:
            report.sections.append((f"{synapse.server_name}, {synapse.log}", synapse.complaints()))
    return report


@pytest.fixture(scope="session")
def authority() -> Authority:
    """The development authority that every Synapse trusts, and that nodes beside them must trust."""
    return Authority("Authority of the tests")


@pytest.fixture(scope="session")
async def synapse(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> AsyncIterator[Synapse]:
    """A Synapse shared by all tests of this worker. Tests must not stop it, and must use their own names."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapse"), authority)
    try:
        yield await factory()
    finally:
        await factory.clean_up()


@pytest.fixture
async def make_synapse(tmp_path: Path, authority: Authority) -> AsyncIterator[SynapseFactory]:
    """Creates Synapses that are stopped at the end of the test."""
    factory = SynapseFactory(tmp_path / "synapses", authority)
    try:
        yield factory
    finally:
        await factory.clean_up()
