"""The users of this node that agents appear as: lets there be one, with its face, and lets it into rooms.

A face is the name and the avatar that people see. It is given when the user is needed, not when an agent is
registered, and follows what is known of the agent.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.avatars import AGAIN, Avatars
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import NODE_AVATAR, NODE_NAME, Avatar, GhostNames, avatar, display_name
from bridge.observability.report import Report
from federation.matrix.errors import MatrixError
from storage.connect import ConnectionLost
from storage.database import Database

MOST_REMEMBERED: Final = 100_000
"""Users of whom it is known what they look like."""

NameOf = Callable[[Agent], str | None]


def nothing_else(agent: Agent) -> str | None:
    """An agent is called by its id."""
    return None


class Face(NamedTuple):
    """Without an avatar it is that of an agent of which nothing is known: it goes on looking as it does."""

    name: str | None
    avatar: Avatar | None


_NODE: Final = Face(NODE_NAME, NODE_AVATAR)


class _Behind(NamedTuple):
    """What a face follows from: whose it is, what is known of that agent, and how it is called here."""

    address: AgentAddress | None
    agent: Agent | None
    name: str | None


class _Shown(NamedTuple):
    """`until` is how long that is good enough, where something is missing."""

    face: Face
    until: float | None
    behind: _Behind


class Ghosts:
    """`name_of` is how the configuration calls an agent of this node."""

    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        routes: RoutingTable,
        *,
        names: GhostNames,
        name_of: NameOf = nothing_else,
        report: Report = lambda sentence, error: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._side = side
        self._routes = routes
        self._names = names
        self._node_user = names.node_user
        self._name_of = name_of
        self._report = report
        self._monotonic = monotonic
        self._avatars = Avatars(side, database, names.node_user, monotonic=monotonic, report=report)
        self._shown: LRUCache[str, _Shown] = LRUCache(MOST_REMEMBERED)

    def is_as_it_was(self, user: str) -> bool:
        """Whether this user is there, and nothing is known that would make it look different."""
        shown = self._shown.get(user)
        if shown is None or shown.until is not None:
            return False
        address, agent, name = shown.behind
        # Of an agent something else is known when it is another object.
        return address is None or (
            self._routes.agent(address) is agent and (agent is None or self._name_of(agent) == name)
        )

    async def appear(self, user: str) -> None:
        """Let there be this user of this node, and look like what it is. Raises `MatrixError` when there
        cannot be one; a face that cannot be had for the moment keeps nobody waiting."""
        behind, shown = self._behind(user), self._shown.get(user)
        face = self._face_of(user, behind)
        if (
            shown is not None
            and shown.face == face
            and (shown.until is None or self._monotonic() < shown.until)
        ):
            self._shown[user] = _Shown(face, shown.until, behind)
            return
        await self._side.ensure_user(user)
        try:
            is_whole = await self._give(user, face)
        except ConnectionLost:
            raise
        except Exception as error:
            self._report(f"What {user} looks like could not be told.", error)
            is_whole = False
        self._shown[user] = _Shown(face, None if is_whole else self._monotonic() + AGAIN, behind)

    async def let_in(self, room_id: str, user: str, *, via: Sequence[str] = ()) -> None:
        """A user of this node comes into a room, with its face: there it is seen with it from the beginning.
        Raises `MatrixError`."""
        await self.appear(user)
        try:
            await self._side.join(room_id, user, via=via)
        except MatrixError as refused:
            if refused.errcode != "M_FORBIDDEN" or user == self._node_user:
                raise
            # By invite only: the node is in the room, and brings its agents along. Somebody else may just
            # have done so; whether it can come in says the room.
            with contextlib.suppress(MatrixError):
                await self._side.invite(room_id, self._node_user, user)
            await self._side.join(room_id, user, via=via)

    # -- inside --

    def _behind(self, user: str) -> _Behind:
        address = self._names.address(user)
        agent = None if address is None else self._routes.agent(address)
        return _Behind(address, agent, None if agent is None else self._name_of(agent))

    def _face_of(self, user: str, behind: _Behind) -> Face:
        if user == self._node_user:
            return _NODE
        address, agent, name = behind
        if address is None:
            return Face(None, None)
        if agent is None:
            return Face(display_name(address.agent_id), None)
        return Face(display_name(name or agent.agent_id), avatar(agent.runtime))

    async def _give(self, user: str, face: Face) -> bool:
        """Whether it has all of it now."""
        url = None if face.avatar is None else await self._avatars.url(face.avatar)
        known = await self._side.profile(user) or {}
        name = None if face.avatar is None and known.get("displayname") else face.name
        wanted = {"displayname": name, "avatar_url": url}
        changes = {field: said for field, said in wanted.items() if said and said != known.get(field)}
        if changes:
            await self._side.set_profile(user, **changes)
        return url is not None or face.avatar is None
