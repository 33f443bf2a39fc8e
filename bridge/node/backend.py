"""What carries the Matrix end of a node: a homeserver that it is itself, or one of which it is a guest.
Nobody above it asks which."""

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

THERE: Final = ("join", "invite", "knock")
"""Memberships of somebody who has to leave before he is gone."""


class NodeBackend(Protocol):
    """`prepare` comes before there is a database, `open` when there is one. Everything else holds from there
    until `close`, which is called in any case."""

    def prepare(self) -> Awaitable[None]:
        """What is wrong with files, ports and whoever carries it is found here, where nothing has been made
        yet: LocalError. It may take as long as somebody has to be waited for."""
        ...

    def open(self, database: Database, peers: AgentPeers) -> Awaitable[None]:
        """It carries when this returns. LocalError when a person has to put something right."""
        ...

    def node_started(self, node: "NodeCore") -> Awaitable[None]:
        """The node works from here on."""
        ...

    def close(self) -> Awaitable[None]: ...

    @property
    def side(self) -> MatrixBackend: ...

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> GhostNames:
        """Which of its users are ours. `has_puppet`: of an agent of another node, whether that node is no
        homeserver."""
        ...

    @property
    def database(self) -> Database: ...

    @property
    def audit(self) -> AuditTrail: ...

    @property
    def for_people(self) -> "AppservicePeople | None":
        """None where no people live."""
        ...

    def rooms_of_ours(self, after: str, limit: int) -> Awaitable[Sequence[tuple[str, int]]]:
        """Rooms in which users of ours are, by their ids, and how many of them."""
        ...

    def ours_in(self, room_id: str, after: str, limit: int) -> Awaitable[Sequence[tuple[str, str]]]:
        """Users of ours who are in a room, were invited into it or wait at its door, and which of it."""
        ...

    def admits(self, server_name: str) -> bool:
        """Whether this node itself speaks with a server."""
        ...

    def make_app(self, node: WireNode, limits: Limits) -> web.Application:
        """What is answered on the node's own port, besides what the core answers there."""
        ...

    def commands(self) -> Mapping[str, Command]:
        """For the command line."""
        ...

    def reload(self) -> None:
        """Read again what may have been renewed. LocalError when it cannot be used; what was there stays."""
        ...

    def summary(self) -> Mapping[str, Any]:
        """What an operator wants to know of it first."""
        ...

    def status(self) -> Awaitable[Mapping[str, Any]]:
        """What an operator wants to know besides."""
        ...
