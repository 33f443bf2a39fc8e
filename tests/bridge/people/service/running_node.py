"""A node with agents, and a second homeserver with people who use them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from appservice.people.send_as_person import PersonSender
from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.agents.updates import Registration
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.people import requester as requesters
from bridge.people.permissions import Level, Rights
from bridge.people.requester import OPERATOR
from bridge.people.service.listener import IsHandledElsewhere, never_handled_elsewhere
from bridge.people.service.people import People
from bridge.people.service.rooms import NamespacesOf
from bridge.people.settings import NAME, PeopleSettings
from bridge.tasks.answer import Answer
from bridge.tasks.effects import Ports
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import edit, in_thread, reaction, text
from federation.rooms.creation import CreateRoomRequest
from tests.federation.nodes import Node, Nodes, now_ms
from tests.support.agents import address
from tests.support.postgres import Server
from tests.support.tasks import RecordingDelivery, RecordingObserver, RecordingReply

HERE, THERE = "here.test", "there.test"
TIMEOUT = 30.0
ALICE, BOB, CAROL, EVE = (f"@{name}:{THERE}" for name in ("alice", "bob", "carol", "eve"))
NODE = f"@palaver:{HERE}"
WORKER = f"@worker-1:{HERE}"
RIGHTS = Rights({"*": Level.LOOK, ALICE: Level.WORK, BOB: Level.WORK, CAROL: Level.ADMINISTER, EVE: Level.NONE})


@dataclass
class RemoteUsers:
    """The people on the second homeserver, and the events that they see."""

    node: Node
    entries: list[StreamedEvent] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        async with self.node.rooms.subscription("users") as subscription:
            while True:
                entries = await subscription.next()
                self.entries += entries
                self._changed.set()
                async with self.node.database.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)

    async def until(self, condition: Callable[[RoomEvent], object], after: int = 0) -> RoomEvent:
        """Return the first matching event, received before or after this call."""
        at = after
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                for entry in self.entries[at:]:
                    at += 1
                    if condition(entry.event):
                        return entry.event
                await self._changed.wait()

    async def until_body(self, *parts: str, room_id: str | None = None, sender: str | None = None) -> RoomEvent:
        """Return a message or an edit whose text contains all parts."""

        def says(event: RoomEvent) -> bool:
            body = event.content.get("body")
            return (
                isinstance(body, str)
                and all(part in body for part in parts)
                and room_id in (None, event.room_id)
                and sender in (None, event.sender)
            )

        return await self.until(says)

    async def until_reaction(self, target: str, key: str) -> RoomEvent:
        relation = {"rel_type": "m.annotation", "event_id": target, "key": key}
        return await self.until(lambda event: event.content.get("m.relates_to") == relation)

    async def until_member(self, room_id: str, user: str, membership: str) -> RoomEvent:
        """Wait until the second homeserver sees this membership."""
        rooms = self.node.rooms
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                with contextlib.suppress(MatrixError):
                    member = await rooms.state_event(room_id, "m.room.member", user)
                    if member is not None and member.content.get("membership") == membership:
                        return member
                await self._changed.wait()

    def bodies(self, room_id: str) -> list[str]:
        return [
            str(entry.event.content["body"])
            for entry in self.entries
            if entry.event.room_id == room_id and entry.event.content.get("body")
        ]

    # -- what they do --

    async def say(self, room_id: str, user: str, body: str, **more: Any) -> str:
        content = {**text(body), **more}
        return await self.node.rooms.send(room_id, user, "m.room.message", content)

    async def mention(self, room_id: str, user: str, whom: str, body: str) -> str:
        content = text(body, mentions=[whom])
        return await self.node.rooms.send(room_id, user, "m.room.message", content)

    async def answer(self, room_id: str, user: str, root: str, body: str) -> str:
        return await self.node.rooms.send(room_id, user, "m.room.message", in_thread(root, text(body)))

    async def edit(self, room_id: str, user: str, event_id: str, body: str, mentions: Sequence[str] = ()) -> str:
        content = edit(event_id, text(body, mentions=mentions))
        return await self.node.rooms.send(room_id, user, "m.room.message", content)

    async def react(self, room_id: str, user: str, event_id: str, key: str) -> str:
        return await self.node.rooms.send(room_id, user, "m.reaction", reaction(event_id, key))

    async def chat(self, user: str, whom: str, **more: Any) -> str:
        """Create a direct chat that the other user has joined."""
        request = CreateRoomRequest(creator=user, preset="trusted_private_chat", invite=[whom], is_direct=True, **more)
        made = await self.node.rooms.create_room(request)
        assert made.not_invited == {}
        await self.until_member(made.room_id, whom, "join")
        return made.room_id


@dataclass
class ActsForPeople:
    """People on the second homeserver for whom the node may act. Satisfies `PersonSender`."""

    home: Node
    people: Collection[str]

    async def can_send_as(self, person: str) -> bool:
        return person in self.people

    async def send_as(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        return await self.home.rooms.send(room_id, person, type_, content, transaction_id=transaction_id)


@dataclass
class RunningNode:
    """The node and its running parts."""

    node: Node
    people: People
    task_service: TaskService
    routes: RoutingTable
    courier: RecordingDelivery
    requester: RecordingReply
    notebook: RecordingObserver
    settings: PeopleSettings
    agent_settings: dict[str, AgentSettings]

    @property
    def room_id(self) -> str:
        """The agents' room."""
        return self.people.rooms.all()["default"]

    async def given(self) -> Task:
        """Return the next task that is delivered to an agent."""
        async with asyncio.timeout(TIMEOUT):
            return await self.courier.delivered.get()

    async def complete(self, task: Task, answer: Answer | str, *progress: Mapping[str, Any]) -> None:
        assert await self.task_service.begin(task.key) is not None
        for content in progress:
            await self.task_service.progress(task.key, content)
        await self.task_service.finish(task.key, Answer(True, answer, 0) if isinstance(answer, str) else answer)

    async def request_task(self, request_id: str = "req-1", to: str = f"worker-1@{HERE}", **changed: Any) -> Task:
        """Request a task as an agent of another node."""
        known: dict[str, Any] = {
            "key": TaskKey("kitchen", request_id),
            "task_id": f"task-{request_id}",
            "from_address": address("coordinator@kitchen"),
            "to_address": address(to),
            "prompt": "Peel the potatoes",
            "origin": Origin("test"),
        }
        submitted = await self.task_service.submit(TaskRequest(**{**known, **changed}))
        assert submitted.task is not None
        return submitted.task

    async def request_task_as(self, person: str, request_id: str = "req-1", to: str = f"worker-1@{HERE}") -> Task:
        """Request a task as an operator in the name of a person."""
        who = requesters.requester_address(person, self.node.name)
        assert isinstance(who, AgentAddress)
        return await self.request_task(
            request_id, to, key=TaskKey(self.node.name, request_id), from_address=who, origin=Origin(OPERATOR)
        )

    async def register_agents(self, *agents: str) -> None:
        """Register agents of this node or of others."""
        sent_at = now_ms()
        await self.routes.update([Registration(address(one), "cis", "claude", ("coding",), sent_at) for one in agents])


@dataclass
class Servers:
    here: Node
    there: RemoteUsers
    stack: AsyncExitStack
    _running: dict[int, AsyncExitStack] = field(default_factory=dict)

    async def start_node(self, **changed: Any) -> RunningNode:
        """Start the node on its database."""
        stack = await self.stack.enter_async_context(AsyncExitStack())
        one = await stack.enter_async_context(running_node(self.here, **changed))
        self._running[id(one)] = stack
        return one

    async def stop_node(self, one: RunningNode) -> None:
        await self._running[id(one)].aclose()

    async def join(self, room_id: str, *users: str) -> None:
        """Join people to a room of the node."""
        for user in users:
            await self.there.node.rooms.join(room_id, user, via=[HERE])

    async def join_when_invited(self, room_id: str, user: str) -> None:
        await self.there.until(
            lambda event: (
                (event.room_id, event.state_key) == (room_id, user) and event.content.get("membership") == "invite"
            )
        )
        await self.join(room_id, user)


@contextlib.asynccontextmanager
async def running_node(
    node: Node,
    *,
    agents: Sequence[str] = ("worker-1",),
    namespaces_of: NamespacesOf | None = None,
    names: Mapping[str, str] | None = None,
    shown_after: float = 0.0,
    speaks: PersonSender | None = None,
    is_handled_elsewhere: IsHandledElsewhere = never_handled_elsewhere,
    **changed: Any,
) -> AsyncIterator[RunningNode]:
    settings = PeopleSettings(**{"names": HomeserverGhostNames(node.name), "rights": RIGHTS, **changed})
    notebook, courier, requester = RecordingObserver(), RecordingDelivery(), RecordingReply()
    agent_settings: dict[str, AgentSettings] = {}
    routes = RoutingTable(node.name, node.database, now_ms=now_ms, report=notebook.problem)
    people = People(
        node.rooms,
        node.database,
        routes,
        settings,
        Ghosts(
            node.rooms,
            node.database,
            routes,
            names=settings.names,
            name_of=lambda agent: (names or {}).get(agent.agent_id),
            report=notebook.problem,
        ),
        now_ms=now_ms,
        namespaces_of=namespaces_of,
        speaks=speaks,
        is_handled_elsewhere=is_handled_elsewhere,
        report=notebook.problem,
    )
    task_service = TaskService(
        node.database,
        Ports(
            {"cis": courier},
            {"test": requester, OPERATOR: requester, NAME: people.reply},
            routes,
            notebook,
            people.watcher,
            shown_after=shown_after,
        ),
        now_ms=now_ms,
        settings_of=lambda agent: agent_settings.get(agent.agent_id, AgentSettings(None)),
        sweep_interval=3600.0,
    )
    people.use_task_service(task_service)
    one = RunningNode(node, people, task_service, routes, courier, requester, notebook, settings, agent_settings)
    async with AsyncExitStack() as stack:
        await routes.start()
        stack.push_async_callback(routes.close)
        await one.register_agents(*(f"{agent}@{node.name}" for agent in agents))
        await task_service.start()
        stack.push_async_callback(task_service.close)
        await people.start()
        stack.push_async_callback(people.close)
        yield one


@contextlib.asynccontextmanager
async def start_servers(server: Server, template: str) -> AsyncIterator[Servers]:
    async with AsyncExitStack() as stack:
        nodes = Nodes(server, template, stack)
        here, there = await nodes.start(HERE, THERE)
        users = RemoteUsers(there)
        reading = asyncio.create_task(users.read())

        async def end() -> None:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

        stack.push_async_callback(end)
        yield Servers(here, users, stack)
