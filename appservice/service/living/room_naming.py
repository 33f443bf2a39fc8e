"""What rooms are called on the homeserver, and whether its public list has them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.service.homeserver_away import HomeserverAway
from appservice.service.living.parts import HasParts
from federation.auth_rules.auth_event_selection import CREATE, POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.errors import MatrixError
from federation.identifiers import domain, is_room_alias, is_room_id
from federation.room_event import RoomEvent
from federation.room_version import DEFAULT_ROOM_VERSION, RoomVersion, room_version, version_of_create_event

MOST_SERVERS: Final = 500
IN_USE: Final = "M_ROOM_IN_USE"


class RoomNaming(HasParts):
    async def resolve_alias(self, alias: str) -> tuple[str, Sequence[str]] | None:
        found = await self._resolve(alias)
        return None if found is None else (found[0], self._servers(found[1]))

    async def create_alias(self, alias: str, room_id: str, user: str) -> None:
        self._refuse_strangers(user)
        self._refuse_alias(alias)
        refuse_room_id(room_id)
        try:
            await self._parts.client.ask(
                Method.PUT, Path.v3.directory.room[alias], {"room_id": room_id}, user=user
            )
        except MatrixError as refused:
            if refused.status != 409:
                raise
            there = await self.resolve_alias(alias)
            if there is None or there[0] != room_id:
                raise MatrixError(IN_USE, f"{alias} is the name of another room.", 409) from refused

    async def remove_alias(self, alias: str) -> None:
        self._refuse_alias(alias)
        try:
            await self._parts.client.ask(Method.DELETE, Path.v3.directory.room[alias])
        except MatrixError as refused:
            if refused.status != 404:
                raise

    async def publish(self, room_id: str, *, published: bool) -> None:
        refuse_room_id(room_id)
        if await self.is_published(room_id) == published:
            return
        await self._parts.client.ask(
            Method.PUT,
            Path.v3.directory.list.room[room_id],
            {"visibility": "public" if published else "private"},
            user=await self._most_powerful(room_id),
        )

    async def is_published(self, room_id: str) -> bool:
        try:
            answer = await self._parts.client.ask(Method.GET, Path.v3.directory.list.room[room_id])
        except MatrixError as refused:
            if refused.status == 404:
                return False
            raise
        return answer.get("visibility") == "public"

    async def _most_powerful(self, room_id: str) -> str:
        """Of those of ours who are in the room."""
        create, levels = [
            await self._parts.rooms.state_event(room_id, *key) for key in (CREATE, POWER_LEVELS)
        ]
        power = PowerLevels(create, levels, version_of(create))
        members = await self._parts.rooms.members(room_id)
        ours = [member.user_id for member in members if self._parts.namespaces.agent(member.user_id)]
        return max(ours, key=power.of_user, default=await self._resident(room_id))

    def _servers(self, named: Iterable[str]) -> tuple[str, ...]:
        """The homeserver first, the others as they come."""
        ours = self._parts.server_name
        return tuple(sorted(dict.fromkeys(named), key=lambda name: name != ours))[:MOST_SERVERS]

    def _refuse_alias(self, alias: str) -> None:
        if not is_room_alias(alias) or domain(alias) != self._parts.server_name:
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} cannot be an alias of this server.", 400)

    def _named(self, answer: Mapping[str, Any], name: str) -> str:
        """What a homeserver says that it has done must have a name."""
        value = answer.get(name)
        if not isinstance(value, str) or not value:
            raise HomeserverAway(self._parts.client.url, f"its answer has no {name}")
        return value


def version_of(create: RoomEvent | None) -> RoomVersion:
    """By whose rules it is read who may do what. Versions 1 and 2 have those of 3."""
    named = None if create is None else version_of_create_event(create.content)
    return room_version("3" if named in ("1", "2") else named) or DEFAULT_ROOM_VERSION


def alias_taken(alias: str) -> MatrixError:
    # As the other side says it, and the homeserver too.
    return MatrixError(IN_USE, f"{alias} is the name of another room.", 400)


def refuse_room_id(room_id: str) -> None:
    if not is_room_id(room_id):
        raise MatrixError("M_INVALID_PARAM", f"{room_id[:255]} is no id of a room.", 400)
