"""A fake homeserver on loopback that creates rooms, resolves aliases and serves timelines, and an attached
node. It fails where a test says so. The same behaviour of real homeservers is tested in `tests/interop`."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from appservice.homeserver.client import HomeserverClient, open_session
from appservice.local_users.local_users import AppserviceUsers
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import relations_of
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.appservice.homeservers import TOKEN, Homeserver, homeserver
from tests.appservice.intakes import IntakeHarness
from tests.appservice.local_users.setup import NOT_FOUND, NOW, Rooms, parts_on

COOK, EVE = "@_agent_cook:their.server", "@_agent_eve:their.server"
ALICE = "@alice:their.server"
IN_USE = (400, {"errcode": "M_ROOM_IN_USE", "error": "Room alias already taken"})


@dataclass
class FakeHomeserver(Rooms):
    """`ends` is where the creation of a room is interrupted: "named" when only its alias exists, "begun" when
    its creator has joined; "lost" when it is complete, but the response is lost. "refused": begun, and then
    refused."""

    ends: str | None = None
    encrypts: bool = False
    lists: bool = True
    listed: set[str] = field(default_factory=set)
    media: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    moments: list[tuple[str, Any]] = field(default_factory=list)
    # Responses that replace the regular ones, by a word of the path.
    instead: dict[str, Any] = field(default_factory=dict)
    made: int = 0
    # Every page of a timeline is empty and has a next one.
    endless: bool = False

    async def answer(self, request: web.Request) -> Any:
        path = request.raw_path.split("?")[0]
        parts = [unquote(part) for part in path.split("/")[3:]]
        user = request.query.get("user_id", "")
        said = next((said for word, said in self.instead.items() if word in path), None)
        if said is not None:
            return said
        if "/media/" in path:
            return await self._keep_media(request, parts)
        body = json.loads(await request.read() or b"{}")
        match request.method, parts:
            case "POST", [_, "createRoom"]:
                return self._create(request, user, body)
            case "PUT", [_, "directory", "room", alias]:
                if alias in self.aliases:
                    return 409, {"errcode": "M_UNKNOWN", "error": "Room alias already exists"}
                self.aliases[alias] = body["room_id"]
                return {}
            case "DELETE", [_, "directory", "room", alias]:
                return {} if self.aliases.pop(alias, None) else NOT_FOUND
            case "GET", [_, "directory", "list", "room", room_id]:
                return {"visibility": "public" if room_id in self.listed else "private"}
            case "PUT", [_, "directory", "list", "room", room_id]:
                (self.listed.add if body["visibility"] == "public" else self.listed.discard)(room_id)
                return {}
            case "PUT", [_, "presence", *_]:
                self.moments.append((path, body))
                return {}
            case _, [_, "rooms", _, "typing" | "receipt", *_]:
                self.moments.append((path, body))
                return {}
            case "GET", [_, "rooms", room_id, "aliases"]:
                return {"aliases": [alias for alias, leads in self.aliases.items() if leads == room_id]}
            case "GET", [_, "rooms", room_id, "context", event_id]:
                return self._context(room_id, event_id, int(request.query["limit"]))
            case "GET", [_, "rooms", room_id, "relations", event_id, *kind]:
                return self._relations(room_id, event_id, kind, int(request.query["limit"]))
        return await super().answer(request)

    def _create(self, request: web.Request, user: str, body: Any) -> Any:
        name = body.get("room_alias_name")
        alias = f"#{name}:their.server"
        if name is not None and alias in self.aliases:
            return IN_USE
        self.made += 1
        room_id = f"!made-{self.made}:their.server"
        if name is not None:
            self.aliases[alias] = room_id
        ends, self.ends = self.ends, None
        if ends == "named":
            return self._lost(request)
        create = {**body["creation_content"], "room_version": body["room_version"]}
        self.happens(room_id, user, "m.room.create", create, "")
        self.moves(room_id, user, "join")
        if ends == "refused":
            return 403, {"errcode": "M_FORBIDDEN", "error": "No."}
        if ends == "begun":
            return self._lost(request)
        for one in body["initial_state"]:
            self.happens(room_id, user, one["type"], one["content"], one["state_key"])
        if self.encrypts:
            self.happens(room_id, user, "m.room.encryption", {"algorithm": "m.megolm.v1.aes-sha2"}, "")
        if body["visibility"] == "public" and self.lists:
            self.listed.add(room_id)
        return self._lost(request) if ends == "lost" else {"room_id": room_id}

    def _messages(self, room_id: str, query: Any) -> Any:
        """A pagination token is the number of preceding events."""
        happened = self.happened[room_id]
        if self.endless:
            return {"chunk": [], "end": f"{query.get('from', '0')}0"}
        if not query.get("from", "0").isdigit():
            return 400, {"errcode": "M_UNKNOWN", "error": "Invalid stream token"}
        limit = int(query["limit"])
        if query["dir"] == "f":
            start = int(query.get("from", 0))
            chunk, end = happened[start : start + limit], start + limit
        else:
            start = int(query.get("from", len(happened)))
            chunk, end = happened[max(0, start - limit) : start][::-1], max(0, start - limit)
        said = {"chunk": [self._told(room_id, one) for one in chunk], "start": str(start)}
        return {**said, "end": str(end)} if chunk else said

    def _context(self, room_id: str, event_id: str, limit: int) -> Any:
        happened = self.happened.get(room_id, [])
        at = next((n for n, one in enumerate(happened) if one["event_id"] == event_id), None)
        if at is None:
            return NOT_FOUND
        half = limit // 2
        after = happened[at + 1 : at + 1 + half]
        state = {(o["type"], o["state_key"]): o for o in happened[: at + 1 + len(after)] if "state_key" in o}
        return {
            "event": self._told(room_id, happened[at]),
            "events_before": [self._told(room_id, o) for o in happened[max(0, at - half) : at][::-1]],
            "events_after": [self._told(room_id, one) for one in after],
            "start": str(max(0, at - half)),
            "end": str(at + 1 + len(after)),
            "state": list(state.values()),
        }

    def _relations(self, room_id: str, event_id: str, kind: list[str], limit: int) -> Any:
        found = [
            one
            for one in self.happened[room_id]
            for type_, target in relations_of(one["content"])
            if target == event_id and type_ != "m.in_reply_to" and kind in ([], [type_])
        ]
        return {"chunk": found[:limit]}

    def _told(self, room_id: str, event: Any) -> Any:
        """With `prev_content`."""
        before = [
            one
            for one in self.happened[room_id]
            if "state_key" in event and (one["type"], one.get("state_key")) == (event["type"], event["state_key"])
        ]
        place = next((n for n, one in enumerate(before) if one is event), 0)
        return {**event, "unsigned": {"prev_content": before[place - 1]["content"]}} if place else event

    async def _keep_media(self, request: web.Request, parts: list[str]) -> Any:
        if request.method == "POST":
            media_id = f"m{len(self.media)}"
            self.media[media_id] = (request.headers["Content-Type"], await request.read())
            return {"content_uri": f"mxc://their.server/{media_id}"}
        kept = self.media.get(parts[-1])
        if kept is None:
            return NOT_FOUND
        return web.Response(body=kept[1], content_type=kept[0].partition(";")[0])


@dataclass
class Side:
    """`rooms` is the fake homeserver, `side` the Matrix backend under test."""

    homeserver: Homeserver
    harness: IntakeHarness
    rooms: FakeHomeserver
    side: AppserviceUsers
    told: int = 0

    async def tell(self) -> None:
        """Push what has happened to the intake."""
        events, self.rooms.untold = self.rooms.untold, []
        self.told += 1
        await self.harness.receive(str(self.told), *events)

    def asked(self, word: str) -> list[str]:
        return [target for target in self.homeserver.targets if word in target]

    async def room(self, **request: Any) -> str:
        return (await self.side.create_room(CreateRoomRequest(creator=COOK, **request))).room_id

    def said(self, room_id: str, sender: str, body: str, **more: Any) -> str:
        """Send as any user, at the homeserver."""
        content = {"msgtype": "m.text", "body": body, **more}
        return self.rooms.happens(room_id, sender, "m.room.message", content)


@asynccontextmanager
async def side_on(
    database: Database, harness: IntakeHarness, rooms: FakeHomeserver | None = None
) -> AsyncIterator[Side]:
    """With `rooms` it is another process on the same homeserver."""
    node_with_rooms = rooms or FakeHomeserver()
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(homeserver(node_with_rooms.answer))
        session = await stack.enter_async_context(open_session())
        client = HomeserverClient(session, at.client.url, TOKEN)
        side = AppserviceUsers(await parts_on(stack, client, node_with_rooms, database, harness))
        side.start()
        stack.push_async_callback(side.close)
        for user in (COOK, EVE):
            await side.ensure_user(user)
        yield Side(at, harness, node_with_rooms, side)


def bodies(events: Any) -> list[object]:
    return [event.content.get("body") for event in events if event.type == "m.room.message"]


def entry(type_: str, state_key: str = "", sender: str = COOK, **content: Any) -> RoomEvent:
    return RoomEvent(f"${type_}{state_key}", "!room:their.server", sender, type_, content, NOW, state_key)
