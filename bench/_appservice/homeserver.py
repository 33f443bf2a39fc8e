"""The homeserver of both sides: a Synapse on its own Postgres, with both registrations."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from bench._harness.child import ChildError
from bench._harness.database import Database
from bench._harness.ports import LOOPBACK
from storage.connect import DatabaseAddress
from tests.support.ports import lasting_port, loopback_addresses
from tests.support.synapse import DidNotStart, Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.synapse.process import environment
from tests.support.tls import Authority


class Homeserver:
    """Call `start` when the registrations are written: the node must know the homeserver's name before.
    People connect over TLS, application services without, as on one machine."""

    def __init__(self, synapse: Synapse) -> None:
        self.synapse = synapse
        self._port = lasting_port()

    @property
    def url(self) -> str:
        """The URL for application services."""
        return f"http://{LOOPBACK}:{self._port}"

    async def start(self, registrations: Sequence[Path]) -> None:
        """Start it; can be called once."""
        self.synapse.appservices = registrations
        resources = [{"names": ["client", "federation", "media", "metrics"]}]
        tls = {"port": self.synapse.port, "tls": True, "bind_addresses": list(loopback_addresses())}
        plain = {"port": self._port, "tls": False, "bind_addresses": [LOOPBACK]}
        listeners = [{**one, "type": "http", "resources": resources} for one in (tls, plain)]
        self.synapse.settings = {"listeners": listeners}
        await self.synapse.start()
        await self.synapse.settled()

    async def version(self) -> str:
        """Return the version for the remarks."""
        answer = await self.synapse.homeserver.request("GET", "/_matrix/federation/v1/version")
        found: str = answer["server"]["version"]
        return found


@asynccontextmanager
async def homeserver(directory: Path, authority: Authority, behind: Database) -> AsyncIterator[Homeserver]:
    """Only warnings are logged, as on the compared sides."""
    try:
        environment()
    except DidNotStart as problem:
        raise ChildError(str(problem)) from None
    factory = SynapseFactory(directory / "synapse", authority)
    try:
        address = DatabaseAddress.from_url(behind.address)
        yield Homeserver(await factory(start=False, postgres=address, log_level="WARNING"))
    finally:
        await factory.clean_up()
