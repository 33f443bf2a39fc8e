"""Rooms and memberships."""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.matrix_client.homeserver import Json
from tests.support.matrix_client.session import Session


class Rooms(Session):
    async def create_room(
        self,
        *,
        version: str = "12",
        preset: str = "private_chat",
        name: str | None = None,
        topic: str | None = None,
        alias: str | None = None,
        invite: Sequence[str] = (),
        initial_state: Sequence[Json] = (),
        power_levels: Json | None = None,
        creation_content: Json | None = None,
        published: bool = False,
        **more: Any,
    ) -> str:
        """Create a room; return its id. `alias` is the localpart; an initial state event is `{type,
        state_key, content}`."""
        wanted = {
            "room_version": version,
            "preset": preset,
            "name": name,
            "topic": topic,
            "room_alias_name": alias,
            "invite": list(invite),
            "initial_state": list(initial_state),
            "power_level_content_override": power_levels,
            "creation_content": creation_content,
            "visibility": "public" if published else "private",
            **more,
        }
        body = {key: value for key, value in wanted.items() if value is not None}
        answer = await self.call("POST", "v3/createRoom", json=body)
        return str(answer["room_id"])

    async def join(self, room: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        """Join by id or alias; return the room id."""
        # The second name is that of servers before v1.12.
        query = {"via": list(via), "server_name": list(via)}
        answer = await self.call("POST", "v3/join/{}", room, query=query, json=_because(reason))
        return str(answer["room_id"])

    async def knock(self, room: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        query = {"via": list(via), "server_name": list(via)}
        answer = await self.call("POST", "v3/knock/{}", room, query=query, json=_because(reason))
        return str(answer["room_id"])

    async def leave(self, room_id: str, *, reason: str | None = None) -> None:
        """Leave a room; also rejects an invite or retracts a knock."""
        await self.call("POST", "v3/rooms/{}/leave", room_id, json=_because(reason))

    async def forget(self, room_id: str) -> None:
        await self.call("POST", "v3/rooms/{}/forget", room_id)

    async def invite(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("invite", room_id, user_id, reason)

    async def kick(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("kick", room_id, user_id, reason)

    async def ban(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("ban", room_id, user_id, reason)

    async def unban(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("unban", room_id, user_id, reason)

    async def _change(self, what: str, room_id: str, user_id: str, reason: str | None) -> None:
        body = {"user_id": user_id, **_because(reason)}
        await self.call("POST", "v3/rooms/{}/" + what, room_id, json=body)

    async def members(self, room_id: str) -> dict[str, str]:
        """Return the memberships of all users."""
        answer = await self.call("GET", "v3/rooms/{}/members", room_id)
        return {event["state_key"]: event["content"]["membership"] for event in answer["chunk"]}

    async def joined_members(self, room_id: str) -> dict[str, Json]:
        """Return the joined users with their display names and avatars."""
        joined: Mapping[str, Json] = (await self.call("GET", "v3/rooms/{}/joined_members", room_id))["joined"]
        return dict(joined)

    async def joined_rooms(self) -> list[str]:
        return list((await self.call("GET", "v3/joined_rooms"))["joined_rooms"])

    async def upgrade(self, room_id: str, version: str) -> str:
        """Upgrade a room; return the new room's id."""
        answer = await self.call("POST", "v3/rooms/{}/upgrade", room_id, json={"new_version": version})
        return str(answer["replacement_room"])


def _because(reason: str | None) -> Json:
    return {} if reason is None else {"reason": reason}
