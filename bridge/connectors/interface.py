"""The interface of a connector: the code that implements one agent protocol.

Each package below `bridge/connectors` describes its connector once (`description.py`), and `registry.py`
lists the descriptions. A node calls `connect(parts)` of the module that a description names, and gets a
`Connector`. `start` and `close` are required; everything else is an optional capability, which does nothing
by default.
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
    """What a node provides to its connectors. `namespaces_of` returns the namespaces of a local agent, `key`
    returns the node's signing key, and `admits` returns whether this node federates with a server."""

    config: Config
    backend: MatrixBackend
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
    """A connector's room, as operators see it. `alias` is its alias; `refusal` says why it cannot be removed
    as a portal."""

    kind: str
    alias: str | None = None
    refusal: LocalError | None = None


class Connector(ABC):
    """`name` is the connector's name in the routing table, and the protocol of the tasks that it submits."""

    name: str

    @abstractmethod
    async def start(self) -> None:
        """Start the connector. It must not wait for peers here."""

    @abstractmethod
    async def close(self) -> None:
        """Stop the connector without losing anything that was acknowledged."""

    # -- tasks --

    delivery: Delivery | None = None
    """Delivers tasks to agents of the connector's protocol."""
    reply: Reply | None = None
    """Answers requesters of tasks in the connector's protocol."""
    watcher: Watcher | None = None
    """Shows the state of every task to people. At most one connector of a node does."""
    runs_tasks: bool = False
    """Whether the connector's agents are agents of this node while they are connected to it."""

    def use_task_service(self, tasks: TaskService) -> None:  # noqa: B027 - a capability
        """Receive the task service, once and before `start`: it can only be created after the connectors."""

    async def stop(self) -> None:  # noqa: B027 - a capability
        """Stop submitting and running tasks. The task service is still open."""

    def wrap_delivery(self, delivery: Delivery) -> Delivery:
        """Return a delivery to agents of this node that first prepares tasks of the connector's own
        protocol."""
        return delivery

    # -- agents --

    def agent_settings(self, agent: Agent) -> AgentSettings | None:
        """Return the settings of one of the connector's agents; None for any other agent."""
        return None

    def accepts_chat_tasks(self, agent: Agent) -> bool:
        """Return whether one of the connector's agents accepts tasks from people, and so belongs in their
        rooms."""
        return True

    def has_local_ghost(self, address: AgentAddress) -> bool:
        """Return whether an agent of another node is a ghost of this node, because its node is not a
        homeserver."""
        return False

    def reserved_for(self, address: AgentAddress) -> str | None:
        """Return why no program can attach itself under this address; None if it can."""
        return None

    def removal_error(self, agent: Agent) -> LocalError | None:
        """Return why an operator cannot remove one of the connector's agents; None if it can be removed."""
        return None

    async def announce_lost(self, lost: Sequence[Agent]) -> None:  # noqa: B027 - a capability
        """Notify peers of agents that have timed out. It may be called again for the same agent; see
        `bridge.agents.liveness`."""

    # -- rooms --

    def owns_room(self, room_id: str) -> bool:
        """Return whether people's commands are ignored in this room, decided by its id alone."""
        return False

    async def handles_message(self, event: RoomEvent) -> bool:
        """Return whether the connector answers this message of a person."""
        return False

    async def portal(self, room_id: str) -> PortalRoom | None:
        """Return the description of one of the connector's rooms; None for any other room."""
        return None

    async def has_alias(self, localpart: str) -> bool:
        """Return whether the connector has a room whose alias has this localpart."""
        return False

    async def ensure_alias(self, localpart: str) -> bool:
        """Like `has_alias`, and make sure that the alias points to the room."""
        return False

    async def create_for_alias(self, alias: str, requester: str) -> bool:
        """Return whether the alias has a room. A room may be created for it, because the server `requester`
        has looked the alias up."""
        return False

    # -- the node's port, and operators --

    def routes(self) -> Iterable[web.RouteDef]:
        """Return the endpoints of the connector on the node's port."""
        return ()

    def commands(self) -> Mapping[str, Command]:
        """Return the connector's commands on the control socket, by name."""
        return {}

    def streams(self) -> Mapping[str, Stream]:
        return {}
