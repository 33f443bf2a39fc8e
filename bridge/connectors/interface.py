"""What a connector is: one small thing that every one of them is, and what some of them can do besides.

A connector speaks one protocol of agents. The centre starts it, closes it, and asks what it can do by asking
whether it satisfies one of the capabilities; there is no list of them in it.
"""

from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from bridge.agent import Agent
from bridge.agent_queue import AgentSettings
from bridge.task_ports import Delivery, Reply, Watcher

Route: TypeAlias = Any
"""An `aiohttp.web.RouteDef`, which a module outside the shells may not import."""
Desk: TypeAlias = Any
"""A `bridge.service.task_desk.TaskDesk`; the same is true of it."""


@runtime_checkable
class Connector(Protocol):
    @property
    def name(self) -> str:
        """By which agents that it has brought are known in the routing table, and the protocol in which tasks
        were asked for."""
        ...

    def start(self) -> Awaitable[None]:
        """It works when this returns. What it waits for from others it waits for afterwards."""
        ...

    def close(self) -> Awaitable[None]:
        """Stop in the middle of things. Nothing may be lost by it that was said to be taken."""
        ...


# ---- what some can do --------------------------------------------------------------------------------


@runtime_checkable
class BringsTasks(Protocol):
    """To agents of its protocol."""

    @property
    def delivery(self) -> Delivery: ...


@runtime_checkable
class RunsTasks(BringsTasks, Protocol):
    """To agents that are agents of this node while they are attached to it, and work on their tasks through
    it."""

    def settings(self, agent: Agent) -> AgentSettings | None:
        """None for an agent that is none of its own."""
        ...

    def work_for(self, desk: Desk) -> None:
        """Where is said what becomes of them. Called once, before `start`."""
        ...

    def stop(self) -> Awaitable[None]:
        """Nothing more is worked on. The desk is still there."""
        ...


@runtime_checkable
class AsksForTasks(Protocol):
    """Whoever asked in its protocol is answered in it."""

    @property
    def reply(self) -> Reply: ...

    def use_desk(self, desk: Desk) -> None:
        """Where it asks. Called once, before `start`: the desk has to be given its connectors first."""
        ...

    def ask_no_more(self) -> Awaitable[None]:
        """The desk is about to be closed. What has been asked is still answered."""
        ...


@runtime_checkable
class ShowsTasks(Protocol):
    """It lets people see what becomes of every task, whoever asked for it. One connector of a node does."""

    @property
    def watcher(self) -> Watcher: ...


@runtime_checkable
class PreparesTasks(Protocol):
    """Tasks that were asked for in its protocol need something before an agent of this node can have them."""

    def prepared(self, delivery: Delivery) -> Delivery:
        """The same delivery, with that in front of it. Tasks of other protocols go through untouched."""
        ...


@runtime_checkable
class HasRoutes(Protocol):
    """It answers on the node's port."""

    def routes(self) -> Iterable[Route]: ...


@runtime_checkable
class AnnouncesLost(Protocol):
    """It tells others of agents that are no longer heard from."""

    def announce_lost(self, lost: Sequence[Agent]) -> Awaitable[None]:
        """It may be told of one again; see `bridge.service.agent_watch`."""
        ...
