"""`palaver portals`: the rooms in which agents of this node are, and how they leave them for good.

What a room of agents says of the bridge that it is: `m.bridge`, and the same under the name that clients
knew before. Element shows it in the settings of a room.

Lets each room of agents say that it is a bridge, and which one.
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
from bridge.node.backend import THERE, NodeBackend
from bridge.observability.report import Report
from bridge.people.place import AGENTS_ROOM
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import is_room_alias, is_room_id
from storage.connect import ConnectionLost
from storage.errors import LocalError
from storage.rooms.aliases import delete_created_room

TYPES: Final = ("m.bridge", "uk.half-shot.bridge")
PROTOCOL: Final = "agents"


def state_key(node_id: str, namespace: str) -> str:
    """No two portals have the same, also where several bridges are in one room."""
    return f"io.palaver://{PROTOCOL}/{quote(node_id, safe='')}/{quote(namespace, safe='')}"


def content(
    node_id: str, namespace: str, node_user: str, *, avatar_url: str | None = None
) -> Mapping[str, Any]:
    """MSC2346: who bridges, what, and which part of it this room is."""
    shown = {} if avatar_url is None else {"avatar_url": avatar_url}
    return {
        "bridgebot": node_user,
        "creator": node_user,
        "protocol": {"id": PROTOCOL, "displayname": "Palaver", **shown},
        "network": {"id": node_id, "displayname": f"Agents of {node_id}"},
        "channel": {"id": namespace, "displayname": namespace},
    }


class PortalSigns:
    """A sign that cannot be put up or taken down is told of, and is no harm to anything else."""

    def __init__(self, side: MatrixBackend, names: GhostNames, report: Report) -> None:
        self._side = side
        self._names = names
        self._report = report

    async def put_up(self, rooms: Mapping[str, str]) -> None:
        """`rooms` are ids by namespace. Nothing is sent where it is so already."""
        profile = await self._profile()
        for namespace, room_id in rooms.items():
            avatar_url = profile.get("avatar_url")
            said = content(
                self._names.node_id,
                namespace,
                self._names.node_user,
                avatar_url=avatar_url if isinstance(avatar_url, str) else None,
            )
            await self._set(room_id, namespace, said)

    async def take_down(self, namespace: str, room_id: str) -> None:
        """By saying nothing: state does not go away."""
        await self._set(room_id, namespace, {})

    async def _set(self, room_id: str, namespace: str, said: Mapping[str, object]) -> None:
        key, node_user = state_key(self._names.node_id, namespace), self._names.node_user
        try:
            for type_ in TYPES:
                await self._side.set_state(room_id, node_user, type_, said, key)
        except (MatrixError, ConnectionLost) as problem:
            self._report(f"The room {room_id} does not say what it bridges.", problem)

    async def _profile(self) -> Mapping[str, object]:
        try:
            return await self._side.profile(self._names.node_user) or {}
        except (MatrixError, ConnectionLost):
            return {}


PAGE: Final = 50
MOST: Final = 500
MOST_AT_ONCE: Final = 20
"""Users who leave in one call: each of them is a request to a homeserver that may take its time."""
AGENTS: Final = "agents"
"""A room of a namespace, which the node made itself."""
OTHER: Final = "other"
"""One into which people have brought an agent. Rooms of connectors are of their kinds."""


Steps: TypeAlias = list[dict[str, Any]]
Users: TypeAlias = Sequence[tuple[str, str]]


class Portals:
    def __init__(self, backend: NodeBackend, node: NodeCore) -> None:
        self._backend = backend
        self._node = node

    def commands(self) -> Mapping[str, Command]:
        """By the names that the control socket knows them by."""
        return {"portals-list": self.list, "portals-remove": self.remove}

    async def list(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """`next` is what `after` must be for the next page, None on the last one."""
        arguments = Arguments(given)
        limit = arguments.number("limit", PAGE, MOST)
        after = arguments.optional_text("after") or ""
        found = await self._backend.rooms_of_ours(after, limit + 1)
        now = found[:limit]
        return {
            "portals": [await self._shown(room_id, ghosts) for room_id, ghosts in now],
            "next": now[-1][0] if len(found) > limit else None,
        }

    async def remove(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Some of those who are to leave a room, in the order of their ids, the node's own user last. `next`
        is what `after` must be to go on; with `look` nothing is done. Whatever is done already is done, and
        one who cannot leave keeps no other from it."""
        arguments = Arguments(given)
        after, look = arguments.optional_text("after") or "", arguments.flag("look")
        try:
            room_id = await self._room(arguments.text("room"))
            portal = await self._node.portal(room_id)
            if portal is not None and portal.refusal is not None:
                raise portal.refusal
            namespace = await self._namespace(room_id)
            steps = [] if look or after else await self._take_down(room_id, namespace, portal)
            leaving, is_last = await self._leaving(room_id, after)
        except MatrixError as refused:
            raise to_local_error(
                refused, "`palaver portals list` shows the rooms as this node knows them."
            ) from None
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

    # -- inside --

    async def _shown(self, room_id: str, ghosts: int) -> dict[str, Any]:
        namespace = await self._namespace(room_id)
        portal = await self._node.portal(room_id)
        return {
            "room_id": room_id,
            "kind": _kind(namespace, portal),
            "namespace": namespace,
            "name": await self._said(room_id, "m.room.name", "name"),
            "alias": await self._said(room_id, "m.room.canonical_alias", "alias"),
            "members": await self._members(room_id),
            "ghosts": ghosts,
        }

    async def _said(self, room_id: str, type_: str, field: str) -> str | None:
        try:
            event = await self._backend.side.state_event(room_id, type_)
        except (MatrixError, LocalError):
            return None  # the list is worth having without it
        text = None if event is None else event.content.get(field)
        return text if isinstance(text, str) else None

    async def _members(self, room_id: str) -> int | None:
        try:
            return len(await self._backend.side.members(room_id))
        except (MatrixError, LocalError):
            return None

    async def _namespace(self, room_id: str) -> str | None:
        """Of a room of agents of this node. It says so itself, also when another one has taken its place."""
        for namespace, one in self._node.rooms().items():
            if one == room_id:
                return namespace
        try:
            event = await self._backend.side.state_event(room_id, AGENTS_ROOM)
        except MatrixError:
            return None  # nobody of ours is there any more
        said = {} if event is None else event.content
        named, node_id = said.get("namespace"), said.get("node")
        return named if isinstance(named, str) and node_id == self._node.names.node_id else None

    async def _room(self, text: str) -> str:
        """A room may be named by its id, an alias, or the namespace whose room it is."""
        if is_room_id(text):
            return text
        if is_room_alias(text):
            found = await self._backend.side.resolve_alias(text)
            if found is not None:
                return found[0]
        elif text in self._node.rooms():
            return self._node.rooms()[text]
        raise LocalError(
            f"There is no room {text}.",
            "`palaver portals list` shows those in which agents of this node are.",
        )

    async def _leaving(self, room_id: str, after: str) -> tuple[Users, bool]:
        """Who leaves now, and whether these are the last. The node's own user stays until the others are
        gone: others than it may come into the room by its word alone."""
        node_user = self._node.names.node_user
        if after == node_user:
            return (), True
        found = await self._backend.ours_in(room_id, after, MOST_AT_ONCE + 2)
        others = [one for one in found if one[0] != node_user]
        if len(others) > MOST_AT_ONCE:
            return others[:MOST_AT_ONCE], False
        membership = await self._backend.side.membership(room_id, node_user)
        if membership in THERE:
            others.append((node_user, membership))
        return others, True

    async def _take_down(self, room_id: str, namespace: str | None, portal: PortalRoom | None) -> Steps:
        """Of a room of agents: nobody is led there any more, and it does not say any more what it was."""
        async with self._backend.database.transaction() as connection:
            # Whoever asks for the room of the namespace after the next start is given another one.
            await delete_created_room(connection, room_id)
        membership = await self._backend.side.membership(room_id, self._node.names.node_user)
        if membership != "join":
            return []
        if namespace is None:
            if portal is None or portal.alias is None:
                return []
            return await self._hide(room_id, portal.alias)
        side = self._backend.side
        if self._node.rooms().get(namespace) == room_id:
            self._node.give_up_room(namespace)
        told_of: list[str] = []
        signs = PortalSigns(side, self._node.names, lambda problem, _: told_of.append(problem))
        steps = await self._hide(room_id, self._node.alias(namespace))
        await signs.take_down(namespace, room_id)
        steps.append(_step("it says no more that it is a bridge", told_of[0] if told_of else None))
        return steps

    async def _hide(self, room_id: str, name: str) -> Steps:
        """Nobody is led there any more."""
        side = self._backend.side
        led = await side.resolve_alias(name)
        steps = [_step("it is listed no more", await _problem(side.publish(room_id, published=False)))]
        if led is not None and led[0] == room_id:
            steps.append(_step(f"{name} leads nowhere", await _problem(side.remove_alias(name))))
        return steps


def _step(done: str, problem: str | None) -> dict[str, Any]:
    return {"done": done, "problem": problem}


def _kind(namespace: str | None, portal: PortalRoom | None) -> str:
    if namespace is not None:
        return AGENTS
    return OTHER if portal is None else portal.kind


async def _problem(act: Awaitable[object]) -> str | None:
    """What kept it from being done. That the homeserver is away is told to whoever asks, who comes again."""
    try:
        await act
    except (MatrixError, PeerError) as error:
        return describe_error(error)
    return None
