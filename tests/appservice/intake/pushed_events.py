"""A fake homeserver for room state: it serves the state, and pushes events when the test says so."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from appservice.homeserver.api import HomeserverUnavailable
from appservice.intake.known_rooms import KnownRooms
from federation.matrix.errors import MatrixError
from tests.appservice.events import ALICE, GHOST, ROOM, message
from tests.appservice.intakes import OURS, IntakeHarness

OTHER = "@_agent_worker-2:their.server"
NODE_USER = OURS.node_user


@dataclass
class PushingHomeserver:
    """`during` is called in the middle of each fetch, after the state was read."""

    harness: IntakeHarness
    rooms: dict[str, dict[tuple[str, str], dict[str, Any]]] = field(default_factory=dict)
    untold: list[dict[str, Any]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    asked_joined: list[str] = field(default_factory=list)
    during: Callable[[], Any] | None = None
    away: bool = False
    count: int = 0
    transactions: int = 0

    def happens(
        self,
        type_: str,
        content: Mapping[str, Any],
        state_key: str | None = "",
        *,
        sender: str = ALICE,
        room_id: str = ROOM,
        told: bool = True,
        **more: Any,
    ) -> dict[str, Any]:
        self.count += 1
        event = message(
            f"${self.count}",
            type=type_,
            content=dict(content),
            sender=sender,
            room_id=room_id,
            origin_server_ts=1_700_000_000_000 + self.count,
            **more,
        )
        if state_key is not None:
            event["state_key"] = state_key
            self.rooms.setdefault(room_id, {})[type_, state_key] = event
        if told:
            self.untold.append(event)
        return event

    def moves(self, user: str, membership: str, *, told: bool = True, **more: Any) -> dict[str, Any]:
        sender = user if membership == "join" else ALICE
        more = {"sender": sender, **more}
        return self.happens("m.room.member", {"membership": membership}, user, told=told, **more)

    def topic(self, text: str, **more: Any) -> dict[str, Any]:
        return self.happens("m.room.topic", {"topic": text}, **more)

    async def tell(self, most: int | None = None) -> None:
        """Push everything that has happened since, as one transaction."""
        told = self.untold[:most]
        del self.untold[:most]
        self.transactions += 1
        await self.harness.receive(str(self.transactions), *told)

    async def fetch(self, room_id: str, as_user: str) -> Sequence[Mapping[str, Any]]:
        self.asked.append((room_id, as_user))
        if self.away:
            raise HomeserverUnavailable("http://127.0.0.1:1", "the test says so")
        member = self.rooms.get(room_id, {}).get(("m.room.member", as_user), {"content": {}})
        if member["content"].get("membership") != "join":
            raise MatrixError("M_FORBIDDEN", "User not in room.", 403)
        found = [dict(event) for event in self.rooms[room_id].values()]
        if self.during is not None:
            during, self.during = self.during, None
            await during()
        else:
            await asyncio.sleep(0)
        return found

    async def fetch_joined(self, user: str) -> Sequence[str]:
        self.asked_joined.append(user)
        return [
            room_id
            for room_id, state in self.rooms.items()
            if state.get(("m.room.member", user), {"content": {}})["content"].get("membership") == "join"
        ]

    def known_rooms(self) -> KnownRooms:
        return KnownRooms(
            self.harness.database,
            self.fetch,
            registration="palaver",
            is_ours=OURS.owns_user,
            fetch_joined=self.fetch_joined,
            node_user=NODE_USER,
        )

    def ids(self, room_id: str = ROOM) -> dict[tuple[str, str], str]:
        return {key: event["event_id"] for key, event in self.rooms[room_id].items()}


def with_ghost(harness: IntakeHarness) -> PushingHomeserver:
    """A room that Alice created and a ghost joined; nothing is pushed yet."""
    telling = PushingHomeserver(harness)
    telling.happens("m.room.create", {"room_version": "12"})
    telling.moves(ALICE, "join")
    telling.topic("first")
    telling.moves(GHOST, "invite")
    telling.moves(GHOST, "join")
    return telling
