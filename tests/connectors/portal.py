"""Local agents, and the room in which people use them: the core of a node on a backend, with programs as
agents."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bridge.agents.address import AgentAddress
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.clock import monotonic, now_ms
from bridge.config.agents import Agent as Configured
from bridge.matrix.ghosts import Ghosts
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.people.permissions import Level, Rights
from bridge.people.service.people import People
from bridge.people.settings import PeopleSettings
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from tests.connectors.setup import BackendSetup
from tests.support.agents import address
from tests.support.driven_node.walking import Person
from tests.support.tasks import RecordingObserver, RecordingReply

PROTOCOL = "test"
# A shell that executes its prompt, and one that repeats it.
AGENTS: tuple[dict[str, Any], ...] = (
    {"id": "cook", "command": ["sh"], "parallel": 4},
    {"id": "baker", "display_name": "The baker", "command": ["cat"]},
)


@dataclass
class Portal:
    """Alice may assign work, bob may read, carol administers, eve has no permission. It runs from `begin` to
    `end`, and again on the same database."""

    backend_setup: BackendSetup
    directory: Path
    alice: Person
    bob: Person
    carol: Person
    eve: Person
    notebook: RecordingObserver = field(default_factory=RecordingObserver)
    requester: RecordingReply = field(default_factory=RecordingReply)
    _life: AsyncExitStack | None = None

    # -- lifecycle --

    async def begin(self) -> None:
        assert self._life is None
        core = AgentCore(
            AgentCoreParts(
                node_id=self.backend_setup.names.node_id,
                database=self.backend_setup.database,
                observer=self.notebook,
                local=self._agents,
                connectors=self._connectors,
                replies={PROTOCOL: self.requester},
                now_ms=now_ms,
            )
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(core.close)
            await core.start()
            self.core = core
            self._life = stack.pop_all()

    async def end(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            await life.aclose()

    async def forget_what_was_read(self) -> None:
        """As after a kill between an effect and the commit of the stream position. It no longer runs."""
        async with self.backend_setup.database.transaction() as connection:
            await connection.execute("UPDATE consumer_cursors SET position = 0 WHERE name <> 'recorder'")
            await connection.execute(
                "UPDATE people_tasks SET sign = NULL, sign_event = NULL, progress = NULL, answer = NULL"
            )
            await connection.execute("UPDATE tasks SET due = '{show,answer}', desk = 0")

    def _agents(self, table: RoutingTable, statuses: AgentStatuses) -> LocalAgents:
        self._local = LocalAgents(
            [Configured.model_validate(one) for one in AGENTS],
            table,
            statuses,
            directory=self.directory,
            environment=os.environ,
            now_ms=now_ms,
            monotonic=monotonic,
        )
        return self._local

    def _connectors(self, table: RoutingTable, agents: LocalAgents) -> list[People]:
        rights = {
            "*": Level.LOOK,
            self.alice.user_id: Level.WORK,
            self.carol.user_id: Level.ADMINISTER,
            self.eve.user_id: Level.NONE,
        }
        self.people = People(
            self.backend_setup.side,
            self.backend_setup.database,
            table,
            PeopleSettings(names=self.backend_setup.names, rights=Rights(rights), is_listed=True),
            Ghosts(
                self.backend_setup.side,
                self.backend_setup.database,
                table,
                names=self.backend_setup.names,
                name_of=self._local.display_name,
                report=self.notebook.problem,
            ),
            now_ms=now_ms,
            monotonic=monotonic,
            report=self.notebook.problem,
        )
        return [self.people]

    # -- properties --

    @property
    def room_id(self) -> str:
        """The agent room."""
        return self.people.rooms.all()["default"]

    @property
    def node_user(self) -> str:
        return self.backend_setup.names.node_user

    def address(self, agent_id: str) -> AgentAddress:
        return address(f"{agent_id}@{self.backend_setup.names.node_id}")

    def user(self, agent_id: str) -> str:
        """The node's own user."""
        user = self.backend_setup.names.ghost(self.address(agent_id))
        assert isinstance(user, str)
        return user

    # -- requests --

    async def mention(self, who: Person, agent_id: str, body: str, room_id: str | None = None) -> str:
        """In Element's format."""
        user = self.user(agent_id)
        content = {
            "msgtype": "m.text",
            "body": f"{agent_id}: {body}",
            "format": "org.matrix.custom.html",
            "formatted_body": f'<a href="https://matrix.to/#/{user}">{agent_id}</a>: {body}',
            "m.mentions": {"user_ids": [user]},
        }
        return await who.send(room_id or self.room_id, "m.room.message", content)

    async def ask(self, request_id: str, to: str, prompt: str, **changed: Any) -> None:
        """As an agent of another node."""
        submitted = await self.core.tasks.submit(
            TaskRequest(
                **{
                    "key": TaskKey("kitchen", request_id),
                    "task_id": f"task-{request_id}",
                    "from_address": address("coordinator@kitchen"),
                    "to_address": self.address(to),
                    "prompt": prompt,
                    "origin": Origin(PROTOCOL),
                    **changed,
                }
            )
        )
        assert submitted.refusal is None

    async def chat(self, who: Person, user: str, **more: Any) -> str:
        """A direct chat that the other user has joined."""
        room_id = await who.create_room(preset="trusted_private_chat", invite=[user], **more)
        await who.wait_for_member(room_id, user, "join")
        return room_id


@asynccontextmanager
async def portal_on(backend_setup: BackendSetup, directory: Path) -> AsyncIterator[Portal]:
    """With alice in the agent room, and all agents in it."""
    alice, bob, carol, eve = [await backend_setup.person(name) for name in ("alice", "bob", "carol", "eve")]
    portal = Portal(backend_setup, directory, alice, bob, carol, eve)
    try:
        await portal.begin()
        await portal.alice.join(portal.room_id, via=[backend_setup.domain])
        for agent in AGENTS:
            await backend_setup.until_member(portal.room_id, portal.user(agent["id"]), "join")
        yield portal
    finally:
        await portal.end()
