"""Sending as people."""

from typing import Any

import pytest
from aiohttp import web

from appservice.homeserver.api import HomeserverUnavailable
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.people.double_puppets import SOURCE_KEY, DoublePuppets
from appservice.people.send_as_person import PersonSender
from appservice.registration.namespaces import Namespaces
from appservice.registration.tokens import KEY_BYTES, transaction_key
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.appservice.homeservers import TOKEN, Homeserver, homeserver

ALICE, ROOM = "@alice:their.server", "!room:their.server"
KEY = transaction_key(ALICE, ROOM, "task/1")


GHOST = "@_agent_worker-1:their.server"


class Echoes:
    """Implements `SentEventLookup` with the pushed events. A ghost is in the room."""

    def __init__(self, known: dict[tuple[str, str, str], str] | None = None) -> None:
        self._known = known or {}

    async def resident(self, room_id: str) -> str | None:
        return GHOST if room_id == ROOM else None

    async def sent(self, sender: str, room_id: str, key: str) -> str | None:
        return self._known.get((sender, room_id, key))


def puppets(at: Homeserver, database: Database, as_token: str | None = None) -> DoublePuppets:
    return DoublePuppets(
        at.client,
        database,
        Namespaces("their.server", "kitchen.local", "_agent_"),
        key=b"k" * KEY_BYTES,
        as_token=as_token,
        now_ms=lambda: 7,
    )


class Answers:
    """A fake homeserver that knows Alice's token until it is revoked. `said` are the room's messages."""

    def __init__(self, *said: Any) -> None:
        self.hers = "hers"
        self.said: list[Any] = list(said)
        self.is_away = False

    def __call__(self, request: web.Request) -> Any:
        token = request.headers["Authorization"].removeprefix("Bearer ")
        if request.path.endswith("messages"):
            assert (token, request.query["user_id"]) == (TOKEN, GHOST)
            return {"chunk": self.said}
        if self.is_away:
            return web.Response(status=502)
        if token not in (self.hers, "all of them"):
            return 401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Unknown."}
        if request.path.endswith("whoami"):
            return {"user_id": ALICE}
        if "away" in request.path:
            return 403, {"errcode": "M_FORBIDDEN", "error": "Not in the room."}
        return {"event_id": "$1"}


async def test_own_token_is_used(database: Database) -> None:
    """Marked, and with a transaction key that makes it idempotent."""
    async with homeserver(Answers()) as at:
        ours = puppets(at, database)
        await ours.log_in(ALICE, "hers")
        speaking = PersonSender(at.client, Echoes(), ours)
        assert await speaking.can_send_as(ALICE)
        said = await speaking.send_as(ROOM, ALICE, "m.room.message", {"body": "x"}, transaction_id="task/1")
        assert said == "$1"
        request = at.server.requests[-1]
        assert request.path == f"/_matrix/client/v3/rooms/{ROOM}/send/m.room.message/{KEY}"
        assert request.headers["Authorization"] == "Bearer hers"
        assert "user_id" not in request.query
        body = at.server.bodies[-1]
        assert f'"{SOURCE_KEY}":"palaver"'.encode() in body
        assert f'"{TRANSACTION_KEY}":"{KEY}"'.encode() in body


async def test_pushed_events_are_not_sent_again(database: Database) -> None:
    """Even if the node may no longer send as the person."""
    async with homeserver(Answers()) as at:
        echoes = Echoes({(ALICE, ROOM, KEY): "$before"})
        speaking = PersonSender(at.client, echoes, puppets(at, database))
        assert await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="task/1") == "$before"
        assert [request.method for request in at.server.requests] == ["GET"]


async def test_second_registration_is_the_fallback(database: Database) -> None:
    """After the person's own token was refused, which is not used again."""
    answers = Answers()
    async with homeserver(answers) as at:
        ours = puppets(at, database, "all of them")
        await ours.log_in(ALICE, "hers")
        answers.hers = "another"
        speaking = PersonSender(at.client, Echoes(), ours)
        for number in range(2):
            assert await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id=f"task/{number}") == "$1"
        shown = [request.headers["Authorization"] for request in at.server.requests if request.method == "PUT"]
        assert shown == ["Bearer hers", "Bearer all of them", "Bearer all of them"]
        assert at.server.requests[-1].query["user_id"] == ALICE


async def test_refusals_are_raised(database: Database) -> None:
    """By this node or the homeserver."""
    answers = Answers()
    async with homeserver(answers) as at:
        ours = puppets(at, database)
        speaking = PersonSender(at.client, Echoes(), ours)
        assert not await speaking.can_send_as(ALICE)
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN: This node may not send as @alice"):
            await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="1")
        assert {request.method for request in at.server.requests} == {"GET"}
        await ours.log_in(ALICE, "hers")
        with pytest.raises(MatrixError, match="Not in the room"):
            await speaking.send_as("!away:their.server", ALICE, "m.x", {}, transaction_id="1")
        assert await speaking.can_send_as(ALICE)
        answers.hers = "another"
        with pytest.raises(MatrixError, match="M_UNKNOWN_TOKEN"):
            await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="1")
        assert not await speaking.can_send_as(ALICE)


async def test_events_sent_before_a_kill_are_found(database: Database) -> None:
    """One scan per room, and another after a lost response. Copied keys do not count."""
    content = {TRANSACTION_KEY: KEY}
    answers = Answers(
        "no event", {"content": 1}, {"content": {TRANSACTION_KEY: 1}},
        {"content": content, "sender": "@bob:their.server", "event_id": "$copied"},
    )  # fmt: skip
    async with homeserver(answers) as at:
        ours = puppets(at, database, "all of them")
        speaking = PersonSender(at.client, Echoes(), ours)
        answers.is_away = True
        with pytest.raises(HomeserverUnavailable):
            await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="task/1")
        answers.said.append({"content": content, "sender": ALICE, "event_id": "$said"})
        for _ in range(2):
            assert await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="task/1") == "$said"
        looks = [request for request in at.server.requests if request.method == "GET"]
        assert len(looks) == 2


async def test_join_as_person(database: Database) -> None:
    """With the same tokens."""
    async with homeserver(Answers()) as at:
        speaking = PersonSender(at.client, Echoes(), puppets(at, database, "all of them"))
        await speaking.join_as(ROOM, ALICE)
        request = at.server.requests[-1]
        assert (request.method, request.path) == ("POST", f"/_matrix/client/v3/rooms/{ROOM}/join")
        assert request.query["user_id"] == ALICE
