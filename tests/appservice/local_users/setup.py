"""An attached node with all parts, on a fake homeserver with the room operations that the tests need. The
same behaviour of real homeservers is tested in `tests/interop`."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from aiohttp import web
from mautrix.api import Method, Path

from appservice.homeserver.client import HomeserverClient, open_session
from appservice.intake.known_rooms import KnownRooms
from appservice.local_users.parts import Parts
from appservice.people.ghosts import GhostUsers
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database
from tests.appservice.homeservers import TOKEN, Homeserver, homeserver
from tests.appservice.intakes import OURS, IntakeHarness

NOT_FOUND = (404, {"errcode": "M_NOT_FOUND", "error": "Not found."})
FORBIDDEN = (403, {"errcode": "M_FORBIDDEN", "error": "User not in room."})
NOW = 1_700_000_000_000


@dataclass
class Rooms:
    """The fake homeserver's rooms: `happened` are the events of each room, `untold` those that are not pushed
    yet. It forgets transaction ids when it is `restarted`."""

    users: set[str] = field(default_factory=lambda: {"@alice:their.server"})
    profiles: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    happened: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    aliases: dict[str, str] = field(default_factory=dict)
    untold: list[dict[str, Any]] = field(default_factory=list)
    transactions: dict[str, str] = field(default_factory=dict)
    # Sends get no response: before or after they are processed.
    loses: str | None = None
    # Sends wait for this.
    held: asyncio.Event | None = None
    at_once: int = 0
    most_at_once: int = 0
    count: int = 0
    # The number of further sends that are attached to extremities without their sender's join.
    unseen: int = 0
    # No request is answered.
    silent: bool = False
    # Requests wait for this.
    hangs: asyncio.Event | None = None
    # The node's clock.
    now: int = NOW

    def happens(
        self, room_id: str, sender: str, type_: str, content: Any, state_key: str | None = None, ts: int = NOW
    ) -> str:
        self.count += 1
        event = {
            "event_id": f"${self.count}",
            "room_id": room_id,
            "sender": sender,
            "type": type_,
            "content": content,
            "origin_server_ts": ts,
        }
        if state_key is not None:
            event["state_key"] = state_key
        self.happened[room_id].append(event)
        self.untold.append(event)
        return f"${self.count}"

    def moves(self, room_id: str, user: str, membership: str, sender: str | None = None, **more: Any) -> str:
        content = {"membership": membership, **more}
        return self.happens(room_id, sender or user, "m.room.member", content, user)

    def room(self, room_id: str, *users: str) -> str:
        self.happens(room_id, "@alice:their.server", "m.room.create", {"room_version": "12"}, "")
        for user in ("@alice:their.server", *users):
            self.moves(room_id, user, "join")
        return room_id

    def entry(self, room_id: str, type_: str, state_key: str) -> dict[str, Any] | None:
        return self.state(room_id).get((type_, state_key))

    def state(self, room_id: str) -> dict[tuple[str, str], dict[str, Any]]:
        happened = self.happened.get(room_id, [])
        return {(one["type"], one["state_key"]): one for one in happened if "state_key" in one}

    def membership(self, room_id: str, user: str) -> str | None:
        entry = self.entry(room_id, "m.room.member", user)
        return None if entry is None else entry["content"]["membership"]

    def bodies(self, room_id: str) -> list[str]:
        return [one["content"]["body"] for one in self.happened[room_id] if "body" in one["content"]]

    def restarted(self) -> None:
        self.transactions.clear()

    async def answer(self, request: web.Request) -> Any:
        if self.hangs is not None:
            await self.hangs.wait()
        if self.silent:
            return 500, {"errcode": "M_UNKNOWN"}
        parts = [unquote(part) for part in request.raw_path.split("?")[0].split("/")[3:]]
        body = json.loads(await request.read() or b"{}")
        user = request.query.get("user_id", "")
        match request.method, parts:
            case "POST", [_, "register"]:
                made = f"@{body['username']}:their.server"
                if made in self.users:
                    return 400, {"errcode": "M_USER_IN_USE"}
                self.users.add(made)
                return {"user_id": made}
            case "GET", [_, "profile", whose]:
                return self.profiles[whose] if whose in self.users else NOT_FOUND
            case "PUT", [_, "profile", whose, name]:
                self.profiles[whose][name] = body[name]
                return {}
            case "GET", [_, "directory", "room", alias]:
                if alias not in self.aliases:
                    return NOT_FOUND
                return {"room_id": self.aliases[alias], "servers": ["their.server", "other.server", "no\n"]}
            case "GET", [_, "joined_rooms"]:
                return {"joined_rooms": [one for one in self.happened if self.membership(one, user) == "join"]}
            case "GET", [_, "sync"]:
                return self._synced(user)
            case "POST", [_, "join" | "knock" as act, room_id]:
                return self._enter(room_id, user, act, body)
            case _, [_, "rooms", room_id, *what]:
                return await self._in_room(request, room_id, user, what, body)
        return 404, {"errcode": "M_UNRECOGNIZED"}

    def _synced(self, user: str) -> Any:
        """Clients receive the stripped state of invited rooms."""
        if user not in self.users:
            return FORBIDDEN
        visible_events = ("type", "state_key", "sender", "content")
        invited = {
            room_id: [
                {name: event[name] for name in visible_events}
                for (type_, key), event in self.state(room_id).items()
                if type_ in ("m.room.create", "m.room.join_rules") or key == user
            ]
            for room_id in self.happened
            if self.membership(room_id, user) == "invite"
        }
        rooms = {"invite": {one: {"invite_state": {"events": state}} for one, state in invited.items()}}
        return {"next_batch": "s1", "rooms": rooms}

    def _enter(self, room_id: str, user: str, act: str, body: Any) -> Any:
        if room_id not in self.happened:
            return 404, {"errcode": "M_UNKNOWN", "error": "Can't join remote room."}
        if self.membership(room_id, user) == "ban":
            return 403, {"errcode": "M_FORBIDDEN", "error": "You are banned."}
        self.moves(room_id, user, act, **body)
        return {"room_id": room_id}

    async def _in_room(self, request: web.Request, room_id: str, user: str, what: list[str], body: Any) -> Any:
        if room_id not in self.happened or self.membership(room_id, user) is None:
            return FORBIDDEN
        match request.method, what:
            case "GET", ["state"]:
                return FORBIDDEN if self.membership(room_id, user) != "join" else list(self.state(room_id).values())
            case "GET", ["state", type_, key]:
                return self.entry(room_id, type_, key) or NOT_FOUND
            case "GET", ["event", event_id]:
                found = [one for one in self.happened[room_id] if one["event_id"] == event_id]
                return found[0] if found else NOT_FOUND
            case "GET", ["messages"]:
                return self._messages(room_id, request.query)
            case "POST", ["leave"]:
                self.moves(room_id, user, "leave", **body)
                return {}
            case "POST", ["invite" | "kick" | "ban" | "unban" as act]:
                if self.membership(room_id, user) != "join":
                    return FORBIDDEN
                whom = body.pop("user_id")
                self.moves(room_id, whom, {"kick": "leave", "unban": "leave"}.get(act, act), user, **body)
                return {}
            case "PUT", ["state", type_, *key]:
                if type_ != "m.room.member" and "".join(key).startswith("@") and key != [user]:
                    return FORBIDDEN
                ts = int(request.query.get("ts", NOW))
                return {"event_id": self.happens(room_id, user, type_, body, "".join(key), ts)}
            case "PUT", ["send" | "redact" as act, type_, _]:
                return await self._put(request, room_id, user, act, type_, body)
        return 404, {"errcode": "M_UNRECOGNIZED"}

    def _messages(self, room_id: str, query: Any) -> Any:
        newest_first = self.happened[room_id][::-1]
        start = int(query.get("from", 0))
        end = start + int(query["limit"])
        page: dict[str, Any] = {"chunk": newest_first[start:end], "start": str(start)}
        return {**page, "end": str(end)} if end < len(newest_first) else page

    async def _put(self, request: web.Request, room_id: str, user: str, act: str, type_: str, body: Any) -> Any:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.held is not None:
                await self.held.wait()
        finally:
            self.at_once -= 1
        if self.loses == "before":
            return self._lost(request)
        if self.membership(room_id, user) != "join" or self._has_not_seen_join():
            return FORBIDDEN
        if type_ == "io.odd":
            return 400, {"errcode": "M_UNKNOWN", "error": "'msgtype' not in content"}
        path = request.raw_path.split("?")[0]
        if path not in self.transactions:
            content = {**body, "redacts": type_} if act == "redact" else body
            for one in self.happened[room_id]:
                if act == "redact" and one["event_id"] == type_ and "state_key" in one:
                    one["content"] = {}
            name = "m.room.redaction" if act == "redact" else type_
            ts = int(request.query.get("ts", NOW))
            self.transactions[path] = self.happens(room_id, user, name, content, ts=ts)
        return self._lost(request) if self.loses == "after" else {"event_id": self.transactions[path]}

    def _has_not_seen_join(self) -> bool:
        is_unseen = self.unseen > 0
        self.unseen -= is_unseen
        return is_unseen

    def _lost(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.close()
        return web.Response()


@dataclass
class AttachedNode:
    """`again` yields the parts of a restarted process."""

    homeserver: Homeserver
    harness: IntakeHarness
    rooms: Rooms
    parts: Parts
    again: Callable[[], Awaitable[Parts]]
    told: int = 0

    async def tell(self, most: int | None = None) -> None:
        """Push what has happened to the intake."""
        events = self.rooms.untold[:most]
        del self.rooms.untold[:most]
        self.told += 1
        await self.harness.receive(str(self.told), *events)

    def asked(self, word: str) -> list[str]:
        """The requests with this word in their path."""
        return [target for target in self.homeserver.targets if word in target]


@asynccontextmanager
async def living_on(database: Database, harness: IntakeHarness) -> AsyncIterator[AttachedNode]:
    rooms = Rooms()
    async with AsyncExitStack() as stack:
        at = await stack.enter_async_context(homeserver(rooms.answer))

        async def parts() -> Parts:
            session = await stack.enter_async_context(open_session())
            client = HomeserverClient(session, at.client.url, TOKEN)
            return await parts_on(stack, client, rooms, database, harness)

        yield AttachedNode(at, harness, rooms, await parts(), parts)


async def parts_on(
    stack: AsyncExitStack, client: HomeserverClient, rooms: Rooms, database: Database, harness: IntakeHarness
) -> Parts:
    async def fetch(room_id: str, as_user: str) -> list[Any]:
        return await client.request_list(Path.v3.rooms[room_id].state, user=as_user)

    async def fetch_joined(user: str) -> list[str]:
        await ghosts.ensure_user(user)
        joined: list[str] = (await client.request(Method.GET, Path.v3.joined_rooms, user=user))["joined_rooms"]
        return joined

    ghosts = GhostUsers(client, OURS, database, now_ms=lambda: rooms.now)
    stack.push_async_callback(ghosts.close)
    known = KnownRooms(
        database,
        fetch,
        registration="palaver",
        is_ours=OURS.owns_user,
        fetch_joined=fetch_joined,
        node_user=OURS.node_user,
    )
    stack.push_async_callback(known.close)
    news = EduDispatcher(OURS.domain, database, now_ms=lambda: rooms.now, wake_readers=harness.stream.publish)
    stack.push_async_callback(news.close)
    return Parts(
        server_name=OURS.domain,
        database=database,
        client=client,
        namespaces=OURS,
        ghosts=ghosts,
        rooms=known,
        ephemeral=news,
        stream=harness.stream,
        now_ms=lambda: rooms.now,
        report=harness.reported.append,
    )
