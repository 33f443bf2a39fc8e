"""What carries the Matrix end of a node: a homeserver that it is itself, or one of which it is a guest.
Nobody above it asks which."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from aiohttp import web

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.ghost_names import GhostNames
from bridge.matrix_side import MatrixSide, SpeaksForPeople
from bridge.service.agent_peers import AgentPeers
from bridge.service.control_socket import Command
from bridge.service.ghosts import Ghosts
from bridge.service.routing_table import RoutingTable
from federation.service.audit import AuditTrail
from federation.wire.limits import Limits
from federation.wire.node import Node as WireNode
from storage.database import Database

THERE: Final = ("join", "invite", "knock")
"""Memberships of somebody who has to leave before he is gone."""


class Inhabited(Protocol):
    """A node that works, as far as whoever carries it asks for it."""

    def is_agent(self, address: AgentAddress) -> bool: ...

    def has_room(self, namespace: str) -> bool:
        """Whether the configuration wants a room of agents for it."""
        ...

    def provide_room(self, namespace: str) -> Awaitable[bool]:
        """Whether there is one; it is made if need be."""
        ...

    def has_office(self, localpart: str) -> Awaitable[bool]:
        """Whether there is a room of the office whose alias has this localpart."""
        ...

    def lead_to_office(self, localpart: str) -> Awaitable[bool]:
        """The same; when it returns, the alias leads there."""
        ...

    def make_office(self, alias: str, asked_by: str) -> Awaitable[bool]:
        """Whether there is an office of this alias, now that another server asks for it."""
        ...

    def rooms(self) -> Mapping[str, str]:
        """The rooms of agents that there are: their ids, by namespace."""
        ...

    def alias(self, namespace: str) -> str:
        """Of its room."""
        ...

    def give_up_room(self, namespace: str) -> None:
        """Until the node starts again there is none, whoever asks for it."""
        ...

    @property
    def names(self) -> GhostNames: ...


class ServesPeople(Protocol):
    """Of whoever carries a node on a homeserver on which people live."""

    @property
    def speaks(self) -> SpeaksForPeople: ...

    def move_in(
        self,
        routes: RoutingTable,
        ghosts: Ghosts,
        *,
        name_of: Callable[[Agent], str | None],
        is_of_agents: Callable[[str], bool],
    ) -> None:
        """From now on people's programs are told of agents. `name_of` is how the configuration calls one,
        `is_of_agents` is true of rooms of agents."""
        ...


class Carrier(Protocol):
    """`prepare` comes before there is a database, `open` when there is one. Everything else holds from there
    until `close`, which is called in any case."""

    def prepare(self) -> Awaitable[None]:
        """What is wrong with files, ports and whoever carries it is found here, where nothing has been made
        yet: LocalError. It may take as long as somebody has to be waited for."""
        ...

    def open(self, database: Database, peers: AgentPeers) -> Awaitable[None]:
        """It carries when this returns. LocalError when a person has to put something right."""
        ...

    def inhabit(self, node: Inhabited) -> Awaitable[None]:
        """The node works from here on."""
        ...

    def close(self) -> Awaitable[None]: ...

    @property
    def side(self) -> MatrixSide: ...

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> GhostNames:
        """Which of its users are ours. `has_puppet`: of an agent of another node, whether that node is no
        homeserver."""
        ...

    @property
    def database(self) -> Database: ...

    @property
    def audit(self) -> AuditTrail: ...

    @property
    def for_people(self) -> ServesPeople | None:
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
        """What is answered on the node's own port, besides what the centre answers there."""
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
