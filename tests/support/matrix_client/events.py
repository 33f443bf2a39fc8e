"""Sending and reading messages and state."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.matrix_client.homeserver import Json, path
from tests.support.matrix_client.seen import Event
from tests.support.matrix_client.session import Session


@dataclass(frozen=True)
class EventPage:
    """Events in the requested direction, and the token of the next page, if there is one."""

    events: list[Event]
    end: str | None


class Events(Session):
    async def send(self, room_id: str, event_type: str, content: Json, *, txn_id: str | None = None) -> str:
        """Send a message event of any type; return its event id."""
        txn = txn_id or self.new_txn_id()
        answer = await self.call("PUT", "v3/rooms/{}/send/{}/{}", room_id, event_type, txn, json=content)
        return str(answer["event_id"])

    async def say(self, room_id: str, body: str, **content: Any) -> str:
        """Send a text message."""
        return await self.send(room_id, "m.room.message", {"msgtype": "m.text", "body": body, **content})

    async def edit(self, room_id: str, event_id: str, body: str) -> str:
        return await self.say(
            room_id,
            f"* {body}",
            **{
                "m.new_content": {"msgtype": "m.text", "body": body},
                "m.relates_to": {"rel_type": "m.replace", "event_id": event_id},
            },
        )

    async def reply(self, room_id: str, event_id: str, body: str) -> str:
        return await self.say(room_id, body, **{"m.relates_to": {"m.in_reply_to": {"event_id": event_id}}})

    async def reply_in_thread(self, room_id: str, root: str, body: str) -> str:
        return await self.say(room_id, body, **{"m.relates_to": {"rel_type": "m.thread", "event_id": root}})

    async def react(self, room_id: str, event_id: str, key: str) -> str:
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": key}
        return await self.send(room_id, "m.reaction", {"m.relates_to": relation})

    async def redact(self, room_id: str, event_id: str, *, reason: str | None = None) -> str:
        body = {} if reason is None else {"reason": reason}
        txn = self.new_txn_id()
        answer = await self.call("PUT", "v3/rooms/{}/redact/{}/{}", room_id, event_id, txn, json=body)
        return str(answer["event_id"])

    async def set_state(self, room_id: str, event_type: str, content: Json, state_key: str = "") -> str:
        """Send a state event; return its event id."""
        answer = await self.call("PUT", "v3/rooms/{}/state/{}/{}", room_id, event_type, state_key, json=content)
        return str(answer["event_id"])

    async def state(self, room_id: str, event_type: str, state_key: str = "") -> Json:
        """Return the content of a state event."""
        return await self.call("GET", "v3/rooms/{}/state/{}/{}", room_id, event_type, state_key)

    async def full_state(self, room_id: str) -> dict[tuple[str, str], Event]:
        """Return all state events, by type and state key."""
        where = path("/_matrix/client/v3/rooms/{}/state", room_id)
        status, _, body = await self.homeserver.raw("GET", where, token=self.access_token)
        events = self.homeserver.answer(status, body, f"GET {where}")
        return {(event["type"], event["state_key"]): event for event in events}

    async def power_levels(self, room_id: str) -> Json:
        return await self.state(room_id, "m.room.power_levels")

    async def set_power_levels(self, room_id: str, *, users: Mapping[str, int] | None = None, **levels: Any) -> str:
        """Change these levels and keep the others; return the event id."""
        content = await self.power_levels(room_id)
        content |= levels
        content["users"] = {**content.get("users", {}), **(users or {})}
        return await self.set_state(room_id, "m.room.power_levels", content)

    async def event(self, room_id: str, event_id: str) -> Event:
        return await self.call("GET", "v3/rooms/{}/event/{}", room_id, event_id)

    async def context(self, room_id: str, event_id: str, *, limit: int = 10) -> Json:
        """Return `events_before`, `event`, `events_after`, `state`, `start` and `end`."""
        return await self.call("GET", "v3/rooms/{}/context/{}", room_id, event_id, query={"limit": limit})

    async def relations(self, room_id: str, event_id: str, relation: str | None = None) -> list[Event]:
        """Return the events that relate to an event, newest first."""
        segments = (room_id, event_id) if relation is None else (room_id, event_id, relation)
        template = "v1/rooms/{}/relations/{}" + ("" if relation is None else "/{}")
        return list((await self.call("GET", template, *segments, query={"limit": 100}))["chunk"])

    async def event_at(self, room_id: str, timestamp: int, *, direction: str = "f") -> str:
        """Return the id of the event nearest to a time in milliseconds."""
        query = {"ts": timestamp, "dir": direction}
        answer = await self.call("GET", "v1/rooms/{}/timestamp_to_event", room_id, query=query)
        return str(answer["event_id"])

    async def messages(
        self, room_id: str, *, start: str | None = None, direction: str = "b", limit: int = 100
    ) -> EventPage:
        """Return one page, backwards from the present by default. This makes the homeserver backfill."""
        query = {"from": start, "dir": direction, "limit": limit}
        answer = await self.call("GET", "v3/rooms/{}/messages", room_id, query=query)
        return EventPage(answer["chunk"], answer.get("end"))

    async def history(self, room_id: str) -> list[Event]:
        """Return all events that the homeserver has, oldest first, page by page."""
        events: list[Event] = []
        page = await self.messages(room_id)
        while page.end is not None:
            events += page.events
            page = await self.messages(room_id, start=page.end)
        return [*events, *page.events][::-1]
