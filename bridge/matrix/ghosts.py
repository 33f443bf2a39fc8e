"""Registers the ghosts of agents, keeps their display names and avatars up to date, and joins them to rooms.

Name and avatar are set when the ghost is needed, not when the agent is registered, and follow what is known
of the agent.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.avatars import RETRY_DELAY, Avatars
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import NODE_AVATAR, NODE_NAME, Avatar, GhostNames, avatar, display_name
from bridge.observability.report import Report
from federation.matrix.errors import MatrixError
from storage.connect import ConnectionLost
from storage.database import Database

MAX_CACHED: Final = 100_000
"""Users whose appearance is cached."""

NameOf = Callable[[Agent], str | None]


def no_display_name(agent: Agent) -> str | None:
    """The default: an agent is displayed by its id."""
    return None


class Appearance(NamedTuple):
    """Without an avatar nothing is known of the agent, and the user keeps its current appearance."""

    name: str | None
    avatar: Avatar | None


_NODE: Final = Appearance(NODE_NAME, NODE_AVATAR)


class _Source(NamedTuple):
    """What an appearance is derived from: the agent's address, its record and its configured name."""

    address: AgentAddress | None
    agent: Agent | None
    name: str | None


class _CachedAppearance(NamedTuple):
    """`until` is how long an incomplete appearance is kept."""

    appearance: Appearance
    until: float | None
    source: _Source


class Ghosts:
    """`name_of` returns the configured name of an agent of this node."""

    def __init__(
        self,
        matrix: MatrixBackend,
        database: Database,
        routes: RoutingTable,
        *,
        names: GhostNames,
        name_of: NameOf = no_display_name,
        report: Report = lambda sentence, error: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._matrix = matrix
        self._routes = routes
        self._names = names
        self._node_user = names.node_user
        self._name_of = name_of
        self._report = report
        self._monotonic = monotonic
        self._avatars = Avatars(matrix, database, names.node_user, monotonic=monotonic, report=report)
        self._cache: LRUCache[str, _CachedAppearance] = LRUCache(MAX_CACHED)

    def is_up_to_date(self, user: str) -> bool:
        """Whether the user exists and its profile needs no change."""
        shown = self._cache.get(user)
        if shown is None or shown.until is not None:
            return False
        address, agent, name = shown.source
        # A changed agent is a different object.
        return address is None or (
            self._routes.agent(address) is agent and (agent is None or self._name_of(agent) == name)
        )

    async def ensure(self, user: str) -> None:
        """Register the user of this node and set its appearance. Raises `MatrixError` if it cannot be
        registered; a failure to set the appearance is only reported."""
        source, shown = self._source(user), self._cache.get(user)
        appearance = self._appearance(user, source)
        if (
            shown is not None
            and shown.appearance == appearance
            and (shown.until is None or self._monotonic() < shown.until)
        ):
            self._cache[user] = _CachedAppearance(appearance, shown.until, source)
            return
        await self._matrix.ensure_user(user)
        try:
            is_whole = await self._update_profile(user, appearance)
        except ConnectionLost:
            raise
        except Exception as error:
            self._report(f"Failed to set the profile of {user}.", error)
            is_whole = False
        self._cache[user] = _CachedAppearance(appearance, None if is_whole else self._monotonic() + RETRY_DELAY, source)

    async def join(self, room_id: str, user: str, *, via: Sequence[str] = ()) -> None:
        """Join a user of this node to a room, after setting its appearance, so that the join event has it.
        Raises `MatrixError`."""
        await self.ensure(user)
        try:
            await self._matrix.join(room_id, user, via=via)
        except MatrixError as refused:
            if refused.errcode != "M_FORBIDDEN" or user == self._node_user:
                raise
            # The room is invite-only: the node's own user is in it and invites its agents. Another task may
            # just have done so; the join decides.
            with contextlib.suppress(MatrixError):
                await self._matrix.invite(room_id, self._node_user, user)
            await self._matrix.join(room_id, user, via=via)

    # -- internals --

    def _source(self, user: str) -> _Source:
        address = self._names.address(user)
        agent = None if address is None else self._routes.agent(address)
        return _Source(address, agent, None if agent is None else self._name_of(agent))

    def _appearance(self, user: str, source: _Source) -> Appearance:
        if user == self._node_user:
            return _NODE
        address, agent, name = source
        if address is None:
            return Appearance(None, None)
        if agent is None:
            return Appearance(display_name(address.agent_id), None)
        return Appearance(display_name(name or agent.agent_id), avatar(agent.runtime))

    async def _update_profile(self, user: str, appearance: Appearance) -> bool:
        """Return whether the appearance is complete now."""
        url = None if appearance.avatar is None else await self._avatars.url(appearance.avatar)
        known = await self._matrix.profile(user) or {}
        name = None if appearance.avatar is None and known.get("displayname") else appearance.name
        wanted = {"displayname": name, "avatar_url": url}
        changes = {field: value for field, value in wanted.items() if value and value != known.get(field)}
        if changes:
            await self._matrix.set_profile(user, **changes)
        return url is not None or appearance.avatar is None
