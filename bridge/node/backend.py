"""The interface of a node's Matrix backend: the node's own homeserver, or the one to which it is attached.
Code above does not depend on which."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from aiohttp import web

from bridge.agents.address import AgentAddress
from bridge.control.socket import Command
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.peers.service import AgentPeers
from federation.http.server.capacity import Limits
from federation.http.services import Node as WireNode
from federation.peers.audit_trail import AuditTrail
from storage.database import Database

if TYPE_CHECKING:
    from bridge.node.appservice_people import AppservicePeople
    from bridge.node.assembly import NodeCore

PRESENT_MEMBERSHIPS: Final = ("join", "invite", "knock")
"""Memberships that require a leave before the user is out of the room."""


class NodeBackend(Protocol):
    """Call `prepare` before there is a database, then `open` with the database. Everything else is available
    from then until `close`, which is called in any case."""

    def prepare(self) -> Awaitable[None]:
        """Check files, ports and the homeserver before anything is created: LocalError. It may wait as long
        as the homeserver is unavailable."""
        ...

    def open(self, database: Database, peers: AgentPeers) -> Awaitable[None]:
        """On return the backend is usable. LocalError if the operator has to fix something."""
        ...

    def node_started(self, node: "NodeCore") -> Awaitable[None]:
        """Called once the core has started."""
        ...

    def close(self) -> Awaitable[None]: ...

    @property
    def side(self) -> MatrixBackend: ...

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> GhostNames:
        """The mapping between agents and users. `has_puppet`: whether the node of another agent is not a
        homeserver."""
        ...

    @property
    def database(self) -> Database: ...

    @property
    def audit(self) -> AuditTrail: ...

    @property
    def for_people(self) -> "AppservicePeople | None":
        """None if no people have accounts on this homeserver."""
        ...

    def rooms_with_ghosts(self, after: str, limit: int) -> Awaitable[Sequence[tuple[str, int]]]:
        """Ids of rooms with local users, in order, with the number of those users."""
        ...

    def ghosts_in(self, room_id: str, after: str, limit: int) -> Awaitable[Sequence[tuple[str, str]]]:
        """Local users who are joined to, invited to or knocking on a room, with their membership."""
        ...

    def admits(self, server_name: str) -> bool:
        """Whether this node federates with a server."""
        ...

    def make_app(self, node: WireNode, limits: Limits) -> web.Application:
        """The application of the node's own port, apart from the core's routes."""
        ...

    def commands(self) -> Mapping[str, Command]:
        """For the command line."""
        ...

    def reload(self) -> None:
        """Read renewed files again. LocalError if one cannot be used; the previous ones stay in use."""
        ...

    def summary(self) -> Mapping[str, Any]:
        """The first facts for an operator."""
        ...

    def status(self) -> Awaitable[Mapping[str, Any]]:
        """Further facts for an operator."""
        ...
