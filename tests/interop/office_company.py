"""A node with offices beside a Synapse with people: itself a homeserver, or attached to that Synapse."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.connectors.offices.rooms.call_events import CALL, RESULT
from tests.interop.appservice_node import appservice_company
from tests.interop.staffed_node import TIMEOUT, Company, company, relation
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.homeserver import Refused as NoRoom
from tests.support.matrix_client.seen import Event
from tests.support.smcp import Peers, PublishedAgent, PublishedComputer
from tests.support.smcp.expectations import Expectations
from tests.support.smcp.walk_membership import connect
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

SIDES = ("federation", "appservice")
VERSION = "0.4.2"
AGENT, COMPUTER = "planner", "bench"


@asynccontextmanager
async def office_company(
    palaver: Path, authority: Authority, directory: Path, side: str, more: str
) -> AsyncIterator[tuple[Company, str]]:
    """With a token for all offices. `more` is further configuration, in which `{synapse}` is the Synapse."""
    factory = SynapseFactory(directory, authority)
    try:
        synapse = await factory(start=side == "federation")
        more = more.replace("{synapse}", synapse.server_name)
        made = appservice_company if side == "appservice" else company
        async with made(palaver, authority, synapse, more=more) as here:
            code, answer = await here.node.cli("offices", "token", "create", "everybody")
            assert code == 0, answer
            yield here, answer["token"]
    finally:
        await factory.clean_up()


@dataclass
class Office:
    """A published Agent and a published Computer in an office with a unique name, and the people who watch
    it."""

    here: Company
    token: str
    peers: Peers
    office_id: str = field(default_factory=lambda: f"kitchen-{secrets.token_hex(4)}")
    room_id: str = ""
    agent: PublishedAgent = field(init=False)
    computer: PublishedComputer = field(init=False)

    @property
    def expectations(self) -> Expectations:
        url = self.here.node.url("", "http")
        return Expectations(url=url, token=self.token, office=self.office_id, agent_id="planner-7")

    @property
    def alias(self) -> str:
        return f"#office-{self.office_id}:{self.here.node.server_name}"

    def user(self, name: str) -> str:
        """Return the user of a member in the room, as the room's state names it."""
        return self.here.node.user(f"{self.office_id}/{name}")

    async def computer_comes(self, computer: PublishedComputer | None = None) -> None:
        """A new one, or one that runs already."""
        self.computer = computer or await self.peers.computer(VERSION, COMPUTER)
        await connect(self.computer, self.expectations)
        await self.computer.do("join", office=self.office_id)

    async def agent_comes(self, agent: PublishedAgent | None = None) -> None:
        """A new one, or one that runs already."""
        self.agent = agent or await self.peers.agent(VERSION, AGENT)
        await connect(self.agent, self.expectations)
        await self.agent.do("join", office=self.office_id, name=AGENT)
        await self.computer.until("notify:enter_office")

    async def shown_to(self, *people: MatrixClient) -> None:
        """Join people to the office's room by its alias, as soon as it exists."""
        async with asyncio.timeout(TIMEOUT):
            for person in people:
                while True:
                    with suppress(NoRoom):
                        self.room_id = await person.join(self.alias)
                        break
                    await asyncio.sleep(0.05)

    async def call(self, tool: str, limit: int = 100, **params: Any) -> Any:
        return await self.agent.do("call", computer=COMPUTER, tool=f"tools__{tool}", params=params, limit=limit)


def is_call(tool: str) -> Callable[[Event], bool]:
    """The root of a call's thread."""
    return lambda event: event["content"].get(CALL, {}).get("tool_name") == f"tools__{tool}"


def is_result(root: str) -> Callable[[Event], bool]:
    return lambda event: relation(event)[:2] == ("m.thread", root) and RESULT in event["content"]


def outcome(event: Event) -> str:
    return str(event["content"][RESULT]["outcome"])
