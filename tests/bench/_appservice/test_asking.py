"""People who ask, against a homeserver that answers as the test says."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from bench._appservice.asking import Asking
from bench._appservice.sides import Answerer
from tests.support.matrix_client import Homeserver, MatrixClient

ROOM, ECHO = "!room:here", "@echo:here"


class Echoing:
    """A homeserver on which `ECHO` says what it hears, and somebody else says it first."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.filters: list[str] = []
        self.read: list[str] = []
        self._news = asyncio.Event()

    async def send(self, request: web.Request) -> web.Response:
        content = await request.json()
        self.heard.append(content)
        self._news.set()
        return web.json_response({"event_id": f"${len(self.heard)}"})

    async def sync(self, request: web.Request) -> web.Response:
        wanted = json.loads(request.query["filter"])
        self.filters.append(request.query["filter"])
        assert wanted["room"]["rooms"][0] == ROOM
        since = int(request.query.get("since", len(self.heard)))
        while "since" in request.query and since == len(self.heard):
            self._news.clear()
            await self._news.wait()
        events = [
            {"event_id": f"${number}", "sender": sender, "content": {"body": content["body"].partition(": ")[2]}}
            for number, content in enumerate(self.heard[since:], since)
            for sender in ("@other:here", ECHO)
        ]
        rooms = {"join": {ROOM: {"timeline": {"events": events, "limited": False}}}} if events else {}
        return web.json_response({"next_batch": str(len(self.heard)), "rooms": rooms})

    async def receipt(self, request: web.Request) -> web.Response:
        assert request.match_info["kind"] == "m.read"
        self.read.append(request.match_info["event"])
        return web.json_response({})


@pytest.fixture
async def echoing() -> AsyncIterator[tuple[Echoing, Asking]]:
    made = Echoing()
    app = web.Application()
    app.router.add_put("/_matrix/client/v3/rooms/{room}/send/{type}/{txn}", made.send)
    app.router.add_get("/_matrix/client/v3/sync", made.sync)
    app.router.add_post("/_matrix/client/v3/rooms/{room}/receipt/{kind}/{event}", made.receipt)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        homeserver = Homeserver(f"http://127.0.0.1:{runner.addresses[0][1]}", ssl.create_default_context())
        people = [MatrixClient(homeserver, f"@{name}:here", name, None) for name in "ab"]
        try:
            yield made, Asking(people, Answerer(ECHO, "echo", ROOM))
        finally:
            await homeserver.close()
    finally:
        await runner.cleanup()


async def test_each_question_is_answered_once(echoing: tuple[Echoing, Asking]) -> None:
    """As many answers as questions, whatever else is said there, one after the other or many at once."""
    made, asking = echoing
    lone = await asking.lone(0.05)
    assert len(lone["durations"]) == len(made.heard) >= 1
    assert min(lone["durations"]) > 0
    many = await asking.many(0.05, 5)
    assert len(many["durations"]) == len(made.heard) - len(lone["durations"]) >= 5
    assert many["seconds"] >= 0.05
    # A homeserver that keeps what it answered to a filter must not tell of an earlier run.
    assert len(set(made.filters)) == 2


async def test_a_question_mentions_whom_it_asks(echoing: tuple[Echoing, Asking]) -> None:
    """As Element writes it."""
    made, asking = echoing
    await asking.lone(0.01)
    content = made.heard[0]
    assert content["body"].startswith("echo: What does the scale say?")
    assert content["m.mentions"] == {"user_ids": [ECHO]}
    assert f'<a href="https://matrix.to/#/{ECHO}">echo</a>' in content["formatted_body"]


async def test_what_was_read_is_marked_as_read(
    echoing: tuple[Echoing, Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now and then: the newest of what was seen, so that nothing is left to be counted as unread."""
    made, asking = echoing
    await asking.many(0.05, 5)
    assert made.read == []
    monkeypatch.setattr("bench._appservice.asking.MARKED_EVERY", 0.0)
    lone = await asking.lone(0.05)
    assert made.read
    assert set(made.read) <= {f"${number}" for number in range(len(made.heard))}
    assert len(made.read) <= len(lone["durations"])
