"""What the commands for agents and tasks work on.

Asking in the name of a person: `palaver task send --as`.

Answers to whoever has asked for a task on the command line.

There is nobody to whom they would have to be brought: they are in the database, where `palaver task show`
finds them. Whoever waits is only woken, and looks there; so nothing is lost when nobody waits any more, or
when it was another process of the node that had the answer.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from appservice.people.send_as_person import Speaking
from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.local.local import AgentsOfThisNode
from bridge.agents.routing_table import RoutingTable
from bridge.observability.live_feed import LiveFeed
from bridge.people.permissions import Level, Rights
from bridge.people.requester import requester
from bridge.tasks.request import TaskKey
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from federation.matrix.identifiers import is_user_id
from storage.database import Database
from storage.errors import LocalError


@dataclass(frozen=True, slots=True)
class ForPeople:
    """Of a node on whose homeserver people live. What is asked in a person's name is asked with the person's
    permissions."""

    speaks: Speaking
    rights: Rights


async def address_of(person: str, for_people: ForPeople | None, node_id: str) -> AgentAddress:
    """Under which the person asks. LocalError when this node cannot ask for the person, or the person may
    not."""
    if not is_user_id(person):
        raise LocalError(
            f"{person[:255]} is no Matrix user.", "Write the whole id, as in @alice:example.org."
        )
    address = requester(person, node_id)
    if not isinstance(address, AgentAddress):
        raise LocalError(f"{person} cannot ask for anything here. {address.reason}", "Ask as yourself.")
    if for_people is None:
        raise LocalError(
            "This node speaks for nobody: it is a homeserver itself, and people live on others.",
            "Leave out --as, or have a node for it that is a guest of the person's homeserver.",
        )
    refusal = for_people.rights.of(person).refusal(Level.WORK)
    if refusal is not None:
        raise LocalError(refusal, "Change [permissions], or ask as somebody else.")
    if not await for_people.speaks.can_speak_for(person):
        raise LocalError(
            f"This node cannot speak for {person}.",
            "The person can give it an access token by a bridge manager; or enable [double_puppet], for which"
            " `palaver registration --double-puppet` writes the file.",
        )
    return address


PROTOCOL: Final = "operator"
"""By which the desk knows whose tasks these are; also the id of the agent as which the operator asks."""


class OperatorReply:
    """Satisfies `bridge.tasks.ports.Reply`."""

    def __init__(self) -> None:
        self._waiting: dict[TaskKey, list[asyncio.Event]] = {}

    @contextmanager
    def listening(self, key: TaskKey) -> Iterator[asyncio.Event]:
        """It is set whenever there may be something new of the task."""
        woken = asyncio.Event()
        self._waiting.setdefault(key, []).append(woken)
        try:
            yield woken
        finally:
            waiting = self._waiting[key]
            waiting.remove(woken)
            if not waiting:
                del self._waiting[key]

    async def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        self._wake(task.key)

    async def answer(self, task: Task) -> None:
        self._wake(task.key)

    def _wake(self, key: TaskKey) -> None:
        for woken in self._waiting.get(key, ()):
            woken.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Of one node. `replies` is what its core was given for the protocol `replies.PROTOCOL`; `configured`
    are the ids of the agents that the configuration names; `kept` says why an
    agent cannot be removed. `for_people` is there where people live."""

    node_id: str
    database: Database
    routes: RoutingTable
    desk: TaskService
    local: AgentsOfThisNode
    replies: OperatorReply
    feed: LiveFeed
    configured: Collection[str]
    now_ms: Callable[[], int]
    for_people: ForPeople | None = None
    kept: Callable[[Agent], LocalError | None] = lambda agent: None
