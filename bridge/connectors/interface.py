"""What a connector is: the code that speaks one protocol of agents.

Each package below `bridge/connectors` describes its connector once (`description.py`), and `registry.py`
lists the descriptions. A node calls `connect(parts)` of the module that a description names, and gets a
`Connector`. `start` and `close` are required; everything else is a capability, and does nothing by default.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from aiohttp import web
from nacl.signing import SigningKey
from prometheus_client import CollectorRegistry

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.config.config import Config
from bridge.control.socket import Command
from bridge.control.stream import Stream
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.observability.live_feed import LiveFeed
from bridge.observability.report import Report
from bridge.peers.service import AgentPeers
from bridge.people.settings import PeopleSettings
from bridge.tasks.ports import Delivery, Reply, Watcher
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.errors import LocalError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """What a node gives to its connectors. `namespaces_of` says of an agent of this node where it is; `key`
    is the node's own; `admits` says whether this node federates with a server, whatever for."""

    config: Config
    side: MatrixBackend
    database: Database
    routes: RoutingTable
    ghosts: Ghosts
    names: GhostNames
    people: PeopleSettings
    peers: AgentPeers
    audit: AuditTrail
    feed: LiveFeed
    metrics: CollectorRegistry
    namespaces_of: Callable[[Agent], Collection[str]]
    admits: Callable[[str], bool]
    key: Callable[[], SigningKey]
    version: str
    report: Report
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]


@dataclass(frozen=True, slots=True)
class PortalRoom:
    """What a connector's room is for operators. `alias` leads to it; `refusal` says why it cannot be removed
    as a portal."""

    kind: str
    alias: str | None = None
    refusal: LocalError | None = None


class Connector(ABC):
    """`name` is the connector's in the routing table, and the protocol of the tasks that it asks for."""

    name: str

    @abstractmethod
    async def start(self) -> None:
        """It works when this returns. What it waits for from others it waits for afterwards."""

    @abstractmethod
    async def close(self) -> None:
        """Nothing may be lost that was acknowledged."""

    # -- tasks --

    delivery: Delivery | None = None
    """Brings tasks to agents of its protocol."""
    reply: Reply | None = None
    """Answers those who asked for tasks in its protocol."""
    watcher: Watcher | None = None
    """Shows people what becomes of every task. One connector of a node does."""
    runs_tasks: bool = False
    """Its agents are agents of this node while they are attached to it."""

    def use_task_service(self, tasks: TaskService) -> None:  # noqa: B027 - a capability
        """Called once, before `start`: the task service has to be given its connectors first."""

    async def stop(self) -> None:  # noqa: B027 - a capability
        """Ask for no more tasks and work on none. The task service is still open."""

    def prepared(self, delivery: Delivery) -> Delivery:
        """A delivery to agents of this node, with what tasks of its own protocol need in front of it."""
        return delivery

    # -- agents --

    def settings(self, agent: Agent) -> AgentSettings | None:
        """Of an agent that it has brought; None for others."""
        return None

    def reads_tasks(self, agent: Agent) -> bool:
        """Whether an agent that it has brought belongs where people give tasks."""
        return True

    def has_puppet(self, address: AgentAddress) -> bool:
        """Whether an agent of another node is a ghost of this one, because its node is no homeserver."""
        return False

    def reserved_for(self, address: AgentAddress) -> str | None:
        """Why no program can attach itself under this address."""
        return None

    def keeps(self, agent: Agent) -> LocalError | None:
        """Why an operator cannot remove an agent that it has brought."""
        return None

    async def announce_lost(self, lost: Sequence[Agent]) -> None:  # noqa: B027 - a capability
        """Tell others of agents that are no longer heard from. It may be told of one again; see
        `bridge.agents.liveness`."""

    # -- rooms --

    def owns_room(self, room_id: str) -> bool:
        """Whether people's commands are none of this room's business, by its id alone."""
        return False

    async def answers(self, event: RoomEvent) -> bool:
        """Whether it answers what a person has written."""
        return False

    async def portal(self, room_id: str) -> PortalRoom | None:
        """What a room is to it; None for the rooms of others."""
        return None

    async def has_room(self, localpart: str) -> bool:
        """Whether it has a room whose alias has this localpart."""
        return False

    async def lead_to_room(self, localpart: str) -> bool:
        """The same; when it returns, the alias leads there."""
        return False

    async def make_room(self, alias: str, asked_by: str) -> bool:
        """Whether there is a room of this alias now that the server `asked_by` looks it up."""
        return False

    # -- the port and operators --

    def routes(self) -> Iterable[web.RouteDef]:
        """What it answers on the node's port."""
        return ()

    def commands(self) -> Mapping[str, Command]:
        """By the names that the control socket knows them by."""
        return {}

    def streams(self) -> Mapping[str, Stream]:
        return {}
