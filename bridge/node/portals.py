"""`palaver portals`: lists the rooms that contain agents of this node, and removes the agents from a room
permanently.

Also publishes the bridge information of agent rooms, `m.bridge` and its older name, which Element shows in
the room's settings.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

from bridge.connectors.interface import PortalRoom
from bridge.control.server.arguments import Arguments, describe_error, to_local_error
from bridge.control.socket import Command
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.node.assembly import NodeCore
from bridge.node.backend import PRESENT_MEMBERSHIPS, NodeBackend
from bridge.observability.report import Report
from bridge.people.room import AGENTS_ROOM
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import is_room_alias, is_room_id
from storage.connect import ConnectionLost
from storage.errors import LocalError
from storage.rooms.aliases import delete_created_room

TYPES: Final = ("m.bridge", "uk.half-shot.bridge")
PROTOCOL: Final = "agents"


def state_key(node_id: str, namespace: str) -> str:
    """Unique per portal, also if several bridges are in one room."""
    return f"io.palaver://{PROTOCOL}/{quote(node_id, safe='')}/{quote(namespace, safe='')}"


def content(node_id: str, namespace: str, node_user: str, *, avatar_url: str | None = None) -> Mapping[str, Any]:
    """MSC2346: the bridge, the network, and the part of it that this room represents."""
    icon = {} if avatar_url is None else {"avatar_url": avatar_url}
    return {
        "bridgebot": node_user,
        "creator": node_user,
        "protocol": {"id": PROTOCOL, "displayname": "Palaver", **icon},
        "network": {"id": node_id, "displayname": f"Agents of {node_id}"},
        "channel": {"id": namespace, "displayname": namespace},
    }


class BridgeInfo:
    """Publishes bridge information in rooms. A failure is reported and has no other effect."""

    def __init__(self, side: MatrixBackend, names: GhostNames, report: Report) -> None:
        self._side = side
        self._names = names
        self._report = report

    async def publish(self, rooms: Mapping[str, str]) -> None:
        """`rooms` are room ids by namespace. Unchanged information is not sent again."""
        profile = await self._profile()
        for namespace, room_id in rooms.items():
            avatar_url = profile.get("avatar_url")
            text = content(
                self._names.node_id,
                namespace,
                self._names.node_user,
                avatar_url=avatar_url if isinstance(avatar_url, str) else None,
            )
            await self._set(room_id, namespace, text)

    async def clear(self, namespace: str, room_id: str) -> None:
        """Set empty content, because state events cannot be removed."""
        await self._set(room_id, namespace, {})

    async def _set(self, room_id: str, namespace: str, text: Mapping[str, object]) -> None:
        key, node_user = state_key(self._names.node_id, namespace), self._names.node_user
        try:
            for type_ in TYPES:
                await self._side.set_state(room_id, node_user, type_, text, key)
        except (MatrixError, ConnectionLost) as problem:
            self._report(f"Failed to publish the bridge information in {room_id}.", problem)

    async def _profile(self) -> Mapping[str, object]:
        try:
            return await self._side.profile(self._names.node_user) or {}
        except (MatrixError, ConnectionLost):
            return {}


PAGE: Final = 50
MAX_PAGE: Final = 500
MAX_AT_ONCE: Final = 20
"""Users that leave per call: each leave may be a slow request to a homeserver."""
AGENTS: Final = "agents"
"""A room of a namespace, created by the node itself."""
OTHER: Final = "other"
"""A room to which people have invited an agent. Rooms of connectors have their own kinds."""


Steps: TypeAlias = list[dict[str, Any]]
Users: TypeAlias = Sequence[tuple[str, str]]


class Portals:
    def __init__(self, backend: NodeBackend, node: NodeCore) -> None:
        self._backend = backend
        self._node = node

    def commands(self) -> Mapping[str, Command]:
        """By control socket command."""
        return {"portals-list": self.list, "portals-remove": self.remove}

    async def list(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """`next` is the `after` of the next page, None on the last one."""
        arguments = Arguments(given)
        limit = arguments.number("limit", PAGE, MAX_PAGE)
        after = arguments.optional_text("after") or ""
        found = await self._backend.rooms_with_ghosts(after, limit + 1)
        now = found[:limit]
        return {
            "portals": [await self._shown(room_id, ghosts) for room_id, ghosts in now],
            "next": now[-1][0] if len(found) > limit else None,
        }

    async def remove(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Remove some users from the room, in the order of their ids, the node's own user last. `next` is the
        `after` of the next call; with `look` nothing is changed. Steps that are already done succeed. If one
        fails, nobody leaves, so that the next call can retry it; a failed leave does not stop the others."""
        arguments = Arguments(given)
        after, look = arguments.optional_text("after") or "", arguments.flag("look")
        try:
            room_id = await self._room(arguments.text("room"))
            portal = await self._node.portal(room_id)
            if portal is not None and portal.refusal is not None:
                raise portal.refusal
            namespace = await self._namespace(room_id)
            steps = [] if look or after else await self._dismantle(room_id, namespace, portal)
            has_failed = any(step["problem"] for step in steps)
            leaving, is_last = ((), True) if has_failed else await self._users_to_remove(room_id, after)
        except MatrixError as refused:
            raise to_local_error(refused, "`palaver portals list` shows the rooms that this node knows.") from None
        problems: dict[str, str | None] = {}
        if not look:
            for user, _ in leaving:
                problems[user] = await _problem(self._backend.side.leave(room_id, user))
        return {
            "room_id": room_id,
            "namespace": namespace,
            "steps": steps,
            "users": [
                {"user_id": user, "membership": membership, "problem": problems.get(user)}
                for user, membership in leaving
            ],
            "next": None if is_last else leaving[-1][0],
        }

    # -- internals --

    async def _shown(self, room_id: str, ghosts: int) -> dict[str, Any]:
        namespace = await self._namespace(room_id)
        portal = await self._node.portal(room_id)
        return {
            "room_id": room_id,
            "kind": _kind(namespace, portal),
            "namespace": namespace,
            "name": await self._state_text(room_id, "m.room.name", "name"),
            "alias": await self._state_text(room_id, "m.room.canonical_alias", "alias"),
            "members": await self._members(room_id),
            "ghosts": ghosts,
        }

    async def _state_text(self, room_id: str, type_: str, field: str) -> str | None:
        try:
            event = await self._backend.side.state_event(room_id, type_)
        except (MatrixError, LocalError):
            return None  # the list is useful without it
        text = None if event is None else event.content.get(field)
        return text if isinstance(text, str) else None

    async def _members(self, room_id: str) -> int | None:
        try:
            return len(await self._backend.side.members(room_id))
        except (MatrixError, LocalError):
            return None

    async def _namespace(self, room_id: str) -> str | None:
        """The namespace of an agent room of this node. Its state names it even after another room has
        replaced it."""
        for namespace, one in self._node.rooms().items():
            if one == room_id:
                return namespace
        try:
            event = await self._backend.side.state_event(room_id, AGENTS_ROOM)
        except MatrixError:
            return None  # no local user is in the room any more
        text = {} if event is None else event.content
        named, node_id = text.get("namespace"), text.get("node")
        return named if isinstance(named, str) and node_id == self._node.names.node_id else None

    async def _room(self, text: str) -> str:
        """Accept a room id, an alias, or the namespace of an agent room."""
        if is_room_id(text):
            return text
        if is_room_alias(text):
            found = await self._backend.side.resolve_alias(text)
            if found is not None:
                return found[0]
        elif text in self._node.rooms():
            return self._node.rooms()[text]
        raise LocalError(
            f"There is no room {text}.", "`palaver portals list` shows the rooms with agents of this node."
        )

    async def _users_to_remove(self, room_id: str, after: str) -> tuple[Users, bool]:
        """Return the next users to remove and whether these are the last. The node's own user stays until the
        others have left: it has to be in the room to invite them."""
        node_user = self._node.names.node_user
        if after == node_user:
            return (), True
        found = await self._backend.ghosts_in(room_id, after, MAX_AT_ONCE + 2)
        others = [one for one in found if one[0] != node_user]
        if len(others) > MAX_AT_ONCE:
            return others[:MAX_AT_ONCE], False
        membership = await self._backend.side.membership(room_id, node_user)
        if membership in PRESENT_MEMBERSHIPS:
            others.append((node_user, membership))
        return others, True

    async def _dismantle(self, room_id: str, namespace: str | None, portal: PortalRoom | None) -> Steps:
        """Remove an agent room's aliases, directory entry and bridge information."""
        steps = await self._take_down(room_id, namespace, portal)
        if not any(step["problem"] for step in steps):
            async with self._backend.database.transaction() as connection:
                # After the next start the namespace gets another room.
                await delete_created_room(connection, room_id)
        return steps

    async def _take_down(self, room_id: str, namespace: str | None, portal: PortalRoom | None) -> Steps:
        membership = await self._backend.side.membership(room_id, self._node.names.node_user)
        if membership != "join":
            return []
        if namespace is None:
            if portal is None or portal.alias is None:
                return []
            return await self._unlist(room_id, portal.alias)
        side = self._backend.side
        if self._node.rooms().get(namespace) == room_id:
            self._node.release_room(namespace)
        problems: list[str] = []
        bridge_info = BridgeInfo(side, self._node.names, lambda problem, _: problems.append(problem))
        steps = await self._unlist(room_id, self._node.alias(namespace))
        await bridge_info.clear(namespace, room_id)
        steps.append(_step("its bridge information was removed", problems[0] if problems else None))
        return steps

    async def _unlist(self, room_id: str, name: str) -> Steps:
        """Remove the directory entry and the alias."""
        side = self._backend.side
        resolved = await side.resolve_alias(name)
        steps = [
            _step(
                "it was removed from the public room directory", await _problem(side.publish(room_id, published=False))
            )
        ]
        if resolved is not None and resolved[0] == room_id:
            steps.append(_step(f"the alias {name} was removed", await _problem(side.remove_alias(name))))
        return steps


def _step(done: str, problem: str | None) -> dict[str, Any]:
    return {"done": done, "problem": problem}


def _kind(namespace: str | None, portal: PortalRoom | None) -> str:
    if namespace is not None:
        return AGENTS
    return OTHER if portal is None else portal.kind


async def _problem(act: Awaitable[object]) -> str | None:
    """Why the operation failed, or None. An unavailable homeserver raises, so that the caller retries."""
    try:
        await act
    except (MatrixError, PeerError) as error:
        return describe_error(error)
    return None
