"""A user of a driven node, with the interface of `tests.support.matrix_client.MatrixClient`, so that a test
can exchange them."""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from federation.matrix import message_content
from tests.support.matrix_client import Refused
from tests.support.matrix_client.homeserver import Json
from tests.support.matrix_client.media import Media
from tests.support.matrix_client.seen import Event, Seen
from tests.support.matrix_client.waiting import TIMEOUT, T, Waiting


class LivesOn(Protocol):
    """The interface of a node that acts for its users and reports what they see."""

    @property
    def server_name(self) -> str: ...

    async def call(self, operation: str, /, **arguments: Any) -> Any: ...

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T: ...


class Resident(Waiting):
    def __init__(self, node: LivesOn, user_id: str) -> None:
        self.node = node
        self.user_id = user_id

    @property
    def server_name(self) -> str:
        return self.node.server_name

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Wait for a condition on all that the node has seen."""
        return await self.node.wait_until(condition, deadline=deadline)

    # Rooms

    async def create_room(
        self,
        *,
        version: str = "12",
        preset: str = "private_chat",
        name: str | None = None,
        alias: str | None = None,
        invite: Sequence[str] = (),
        initial_state: Sequence[Json] = (),
        power_levels: Json | None = None,
        creation_content: Json | None = None,
        published: bool = False,
        room_type: str | None = None,
    ) -> str:
        made = await self.node.call(
            "create_room", creator=self.user_id, version=version, preset=preset, name=name, alias=alias,
            invite=invite, initial_state=initial_state, power_levels=power_levels or {},
            creation_content=creation_content or {}, listed=published, room_type=room_type,
        )  # fmt: skip
        assert made["not_invited"] == {}, made
        return str(made["room_id"])

    async def join(self, room: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        return str(await self.node.call("join", room=room, user=self.user_id, via=via, reason=reason))

    async def knock(self, room: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        return str(await self.node.call("knock", room=room, user=self.user_id, via=via, reason=reason))

    async def leave(self, room_id: str, *, reason: str | None = None) -> None:
        await self.node.call("leave", room_id=room_id, user=self.user_id, reason=reason)

    async def invite(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("invite", room_id, user_id, reason)

    async def kick(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("kick", room_id, user_id, reason)

    async def ban(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("ban", room_id, user_id, reason)

    async def unban(self, room_id: str, user_id: str, *, reason: str | None = None) -> None:
        await self._change("unban", room_id, user_id, reason)

    async def _change(self, what: str, room_id: str, user_id: str, reason: str | None) -> None:
        await self.node.call(what, room_id=room_id, sender=self.user_id, user=user_id, reason=reason)

    async def members(self, room_id: str) -> dict[str, str]:
        all_memberships = ["join", "leave", "invite", "ban", "knock"]
        members = await self.node.call("members", room_id=room_id, memberships=all_memberships)
        return {member["user_id"]: member["membership"] for member in members}

    async def joined_members(self, room_id: str) -> dict[str, Json]:
        joined = await self.node.call("members", room_id=room_id)
        return {
            member["user_id"]: {"display_name": member["displayname"], "avatar_url": member["avatar_url"]}
            for member in joined
        }

    async def joined_rooms(self) -> list[str]:
        return list(await self.node.call("joined_rooms", user=self.user_id))

    async def upgrade(self, room_id: str, version: str) -> str:
        return str(await self.node.call("upgrade_room", room_id=room_id, user=self.user_id, version=version))

    # Events

    async def send(self, room_id: str, event_type: str, content: Json, *, txn_id: str | None = None) -> str:
        event_id = await self.node.call(
            "send", room_id=room_id, sender=self.user_id, type_=event_type, content=content,
            transaction_id=txn_id or secrets.token_hex(8),
        )  # fmt: skip
        return str(event_id)

    async def say(self, room_id: str, body: str, *, txn_id: str | None = None) -> str:
        return await self._message(room_id, message_content.text(body), txn_id)

    async def edit(self, room_id: str, event_id: str, body: str) -> str:
        return await self._message(room_id, message_content.edit(event_id, message_content.text(body)))

    async def reply(self, room_id: str, event_id: str, body: str) -> str:
        return await self._message(room_id, message_content.reply(event_id, message_content.text(body)))

    async def reply_in_thread(self, room_id: str, root: str, body: str) -> str:
        return await self._message(room_id, message_content.in_thread(root, message_content.text(body)))

    async def react(self, room_id: str, event_id: str, key: str) -> str:
        return await self.send(room_id, "m.reaction", message_content.reaction(event_id, key))

    async def _message(self, room_id: str, content: Json, txn_id: str | None = None) -> str:
        return await self.send(room_id, "m.room.message", content, txn_id=txn_id)

    async def redact(self, room_id: str, event_id: str, *, reason: str | None = None) -> str:
        made = await self.node.call("redact", room_id=room_id, sender=self.user_id, event_id=event_id, reason=reason)
        return str(made)

    async def set_state(self, room_id: str, event_type: str, content: Json, state_key: str = "") -> str:
        made = await self.node.call(
            "set_state", room_id=room_id, sender=self.user_id, type_=event_type, content=content,
            state_key=state_key,
        )  # fmt: skip
        return str(made)

    async def state(self, room_id: str, event_type: str, state_key: str = "") -> Json:
        event = await self.node.call("state_event", room_id=room_id, type_=event_type, state_key=state_key)
        if event is None:
            raise Refused(404, {"errcode": "M_NOT_FOUND"}, "state")
        return dict(event["content"])

    async def full_state(self, room_id: str) -> dict[tuple[str, str], Event]:
        events = await self.node.call("state", room_id=room_id)
        return {(event["type"], event["state_key"]): event for event in events}

    async def power_levels(self, room_id: str) -> Json:
        return await self.state(room_id, "m.room.power_levels")

    async def set_power_levels(self, room_id: str, *, users: Mapping[str, int] | None = None, **levels: Any) -> str:
        content = await self.power_levels(room_id)
        content |= levels
        content["users"] = {**content.get("users", {}), **(users or {})}
        return await self.set_state(room_id, "m.room.power_levels", content)

    async def event(self, room_id: str, event_id: str) -> Event:
        event = await self.node.call("event", room_id=room_id, event_id=event_id, reader=self.user_id)
        if event is None:
            raise Refused(404, {"errcode": "M_NOT_FOUND"}, "event")
        return dict(event)

    async def relations(self, room_id: str, event_id: str, relation: str | None = None) -> list[Event]:
        """Return the events that relate to an event, newest first."""
        found = await self.node.call(
            "relations", room_id=room_id, event_id=event_id, rel_type=relation, reader=self.user_id
        )
        return list(found[::-1])

    async def history(self, room_id: str) -> list[Event]:
        """Return all events that the node has, oldest first, page by page."""
        events: list[Event] = []
        start: str | None = None
        while True:
            page = await self.node.call("messages", room_id=room_id, start=start, limit=100, reader=self.user_id)
            events += page["events"]
            start = page["next"]
            if start is None:
                return events[::-1]

    # What is not kept

    async def typing(self, room_id: str, typing: bool = True) -> None:
        await self.node.call("set_typing", room_id=room_id, user=self.user_id, typing=typing)

    async def read(self, room_id: str, event_id: str, *, thread_id: str | None = None) -> None:
        await self.node.call("mark_read", room_id=room_id, user=self.user_id, event_id=event_id, thread_id=thread_id)

    async def set_presence(self, presence: str, status: str | None = None) -> None:
        await self.node.call("set_presence", user=self.user_id, presence=presence, status=status)

    # What can be found

    async def public_rooms(self, *, server: str, search: str | None = None) -> list[Json]:
        return list((await self.node.call("public_rooms", server=server, search=search))["chunk"])

    async def hierarchy(self, room_id: str, *, via: Sequence[str] = ()) -> list[Json]:
        found = await self.node.call("hierarchy", room_id=room_id, user=self.user_id, via=via)
        assert "next_batch" not in found
        return list(found["rooms"])

    async def profile(self, user_id: str) -> Json:
        profile = await self.node.call("profile", user=user_id)
        if profile is None:
            raise Refused(404, {"errcode": "M_NOT_FOUND"}, "profile")
        return dict(profile)

    async def set_display_name(self, name: str) -> None:
        await self.node.call("set_profile", user=self.user_id, displayname=name)

    async def set_avatar(self, mxc: str) -> None:
        await self.node.call("set_profile", user=self.user_id, avatar_url=mxc)

    # Media

    async def upload(self, data: bytes, content_type: str, *, filename: str | None = None) -> str:
        made = await self.node.call(
            "upload", user=self.user_id, content=base64.b64encode(data).decode(), content_type=content_type,
            file_name=filename,
        )  # fmt: skip
        return str(made)

    async def download(self, mxc: str) -> Media:
        return _media(await self.node.call("download", mxc=mxc))

    async def thumbnail(self, mxc: str, width: int, height: int, *, method: str = "scale") -> Media:
        return _media(await self.node.call("thumbnail", mxc=mxc, width=width, height=height, method=method))


def _media(told: Mapping[str, Any]) -> Media:
    return Media(told["info"]["content_type"], base64.b64decode(told["content"]), {})
