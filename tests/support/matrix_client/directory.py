"""Aliases, published rooms, spaces and profiles."""

from typing import Any

from tests.support.matrix_client.homeserver import Json
from tests.support.matrix_client.session import Session


class Directory(Session):
    async def set_alias(self, alias: str, room_id: str) -> None:
        await self.call("PUT", "v3/directory/room/{}", alias, json={"room_id": room_id})

    async def delete_alias(self, alias: str) -> None:
        await self.call("DELETE", "v3/directory/room/{}", alias)

    async def resolve(self, alias: str) -> Json:
        """Return `room_id` and `servers`."""
        return await self.call("GET", "v3/directory/room/{}", alias)

    async def publish(self, room_id: str, *, published: bool = True) -> None:
        body = {"visibility": "public" if published else "private"}
        await self.call("PUT", "v3/directory/list/room/{}", room_id, json=body)

    async def public_rooms(
        self, *, server: str | None = None, search: str | None = None, limit: int | None = None, **more: Any
    ) -> list[Json]:
        """Return the published rooms of this homeserver, or of another server."""
        body: Json = {**more, **({} if limit is None else {"limit": limit})}
        if search is not None:
            body["filter"] = {"generic_search_term": search}
        answer = await self.call("POST", "v3/publicRooms", query={"server": server}, json=body)
        return list(answer["chunk"])

    async def hierarchy(
        self, room_id: str, *, suggested_only: bool = False, max_depth: int | None = None
    ) -> list[Json]:
        """Return a space and its children, all pages."""
        rooms: list[Json] = []
        start: str | None = None
        while True:
            query = {
                "suggested_only": str(suggested_only).lower(), "max_depth": max_depth, "from": start,
            }  # fmt: skip
            answer = await self.call("GET", "v1/rooms/{}/hierarchy", room_id, query=query)
            rooms += answer["rooms"]
            start = answer.get("next_batch")
            if start is None:
                return rooms

    async def profile(self, user_id: str) -> Json:
        return await self.call("GET", "v3/profile/{}", user_id)

    async def set_display_name(self, name: str) -> None:
        await self.call("PUT", "v3/profile/{}/displayname", self.user_id, json={"displayname": name})

    async def set_avatar(self, mxc: str) -> None:
        await self.call("PUT", "v3/profile/{}/avatar_url", self.user_id, json={"avatar_url": mxc})
