"""Typing, receipts and presence."""

from tests.support.matrix_client.homeserver import Json
from tests.support.matrix_client.session import Session


class Ephemeral(Session):
    async def typing(self, room_id: str, typing: bool = True, *, timeout_ms: int = 30_000) -> None:
        body: Json = {"typing": typing, **({"timeout": timeout_ms} if typing else {})}
        await self.call("PUT", "v3/rooms/{}/typing/{}", room_id, self.user_id, json=body)

    async def read(self, room_id: str, event_id: str, *, kind: str = "m.read", thread_id: str | None = None) -> None:
        """Send a read receipt up to this event."""
        body = {} if thread_id is None else {"thread_id": thread_id}
        await self.call("POST", "v3/rooms/{}/receipt/{}/{}", room_id, kind, event_id, json=body)

    async def set_presence(self, presence: str, status: str | None = None) -> None:
        body = {"presence": presence, **({} if status is None else {"status_msg": status})}
        await self.call("PUT", "v3/presence/{}/status", self.user_id, json=body)

    async def presence(self, user_id: str) -> Json:
        return await self.call("GET", "v3/presence/{}/status", user_id)
