"""Saying things as people."""

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
    """Satisfies `SentEventLookup`: what has come back. One of ours is in the room."""

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
    """A homeserver that knows Alice's token, until it does not. `said` are messages of the room."""

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


async def test_it_is_said_with_the_persons_own_token(database: Database) -> None:
    """Marked as ours, under a name by which it is known when it is said again."""
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


async def test_what_has_come_back_is_not_said_again(database: Database) -> None:
    """Not even when nobody can speak for the person any more."""
    async with homeserver(Answers()) as at:
        echoes = Echoes({(ALICE, ROOM, KEY): "$before"})
        speaking = PersonSender(at.client, echoes, puppets(at, database))
        assert await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id="task/1") == "$before"
        assert [request.method for request in at.server.requests] == ["GET"]


async def test_the_second_registration_names_the_person(database: Database) -> None:
    """It is used once the person's own token is no good; that one is not shown a second time."""
    answers = Answers()
    async with homeserver(answers) as at:
        ours = puppets(at, database, "all of them")
        await ours.log_in(ALICE, "hers")
        answers.hers = "another"
        speaking = PersonSender(at.client, Echoes(), ours)
        for number in range(2):
            assert await speaking.send_as(ROOM, ALICE, "m.x", {}, transaction_id=f"task/{number}") == "$1"
        shown = [
            request.headers["Authorization"] for request in at.server.requests if request.method == "PUT"
        ]
        assert shown == ["Bearer hers", "Bearer all of them", "Bearer all of them"]
        assert at.server.requests[-1].query["user_id"] == ALICE


async def test_what_cannot_be_said_is_refused(database: Database) -> None:
    """By this node, or as the homeserver says it."""
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


async def test_what_was_said_before_a_kill_is_seen_in_the_room(database: Database) -> None:
    """Once for each room, and again when nobody knows whether something was said. What others have copied is
    not taken for it."""
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


async def test_a_person_is_brought_into_a_room(database: Database) -> None:
    """By the same right."""
    async with homeserver(Answers()) as at:
        speaking = PersonSender(at.client, Echoes(), puppets(at, database, "all of them"))
        await speaking.join_as(ROOM, ALICE)
        request = at.server.requests[-1]
        assert (request.method, request.path) == ("POST", f"/_matrix/client/v3/rooms/{ROOM}/join")
        assert request.query["user_id"] == ALICE
