"""The services that the commands about agents and tasks use, requests in a person's name (`palaver task send
--as`), and the reply channel of tasks that the operator requests.

The answer to an operator's task is stored in the database, where `palaver task show` reads it, and is not
sent to anyone. Waiting commands are only woken to read the database. So no answer is lost when a command has
ended or another process of the node received the answer.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from appservice.people.send_as_person import PersonSender
from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.observability.live_feed import LiveFeed
from bridge.people.permissions import Level, Rights
from bridge.people.requester import requester_address
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from federation.matrix.identifiers import is_user_id
from storage.database import Database
from storage.errors import LocalError


@dataclass(frozen=True, slots=True)
class ForPeople:
    """What a request in a person's name needs. Only an application service has it, because people are users
    of its homeserver. The request has the person's permissions."""

    speaks: PersonSender
    rights: Rights


async def address_of(person: str, for_people: ForPeople | None, node_id: str) -> AgentAddress:
    """Return the address under which the person requests tasks. Raises `LocalError` if this node cannot act
    for the person, or the person lacks the permission."""
    if not is_user_id(person):
        raise LocalError(f"{person[:255]} is not a Matrix user id.", "Write a complete id, like @alice:example.org.")
    address = requester_address(person, node_id)
    if not isinstance(address, AgentAddress):
        raise LocalError(f"{person} cannot request tasks here. {address.reason}", "Remove --as.")
    if for_people is None:
        raise LocalError(
            "This node is a homeserver itself and cannot act for people.",
            "Remove --as, or use a node that is an application service of the person's homeserver.",
        )
    refusal = for_people.rights.of(person).refusal(Level.WORK)
    if refusal is not None:
        raise LocalError(refusal, "Change [permissions], or use another user.")
    if not await for_people.speaks.can_send_as(person):
        raise LocalError(
            f"This node cannot act for {person}.",
            "The person can give it an access token through a bridge manager; or enable [double_puppet], for"
            " which `palaver registration --double-puppet` writes the file.",
        )
    return address


PROTOCOL: Final = "operator"
"""The protocol of the operator's tasks, and the id of the agent that requests them."""


class OperatorReply:
    """Wakes commands that wait for an operator's task. Satisfies `bridge.tasks.ports.Reply`."""

    def __init__(self) -> None:
        self._waiting: dict[TaskKey, list[asyncio.Event]] = {}

    @contextmanager
    def listening(self, key: TaskKey) -> Iterator[asyncio.Event]:
        """Yield an event that is set when the task may have changed."""
        changed = asyncio.Event()
        self._waiting.setdefault(key, []).append(changed)
        try:
            yield changed
        finally:
            waiting = self._waiting[key]
            waiting.remove(changed)
            if not waiting:
                del self._waiting[key]

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self._wake(task.key)

    async def answer(self, task: Task) -> None:
        self._wake(task.key)

    def _wake(self, key: TaskKey) -> None:
        for changed in self._waiting.get(key, ()):
            changed.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The services of a node that the commands use.

    `replies` is the reply channel for `PROTOCOL`. `configured` are the ids of agents in the configuration.
    `removal_refusal` returns the error if an agent cannot be removed. `for_people` is None unless the node is
    an application service.
    """

    node_id: str
    database: Database
    routes: RoutingTable
    tasks: TaskService
    local: LocalAgents
    replies: OperatorReply
    feed: LiveFeed
    configured: Collection[str]
    now_ms: Callable[[], int]
    for_people: ForPeople | None = None
    removal_refusal: Callable[[Agent], LocalError | None] = lambda agent: None
