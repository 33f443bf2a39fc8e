"""People of the homeserver who send questions, and one of them who reads the answers."""

import asyncio
import itertools
import json
import secrets
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from bench._appservice.sides import Answerer
from tests.support.matrix_client import MatrixClient

TIMEOUT = 60.0
"""Seconds for one answer."""
WAIT_MS = 10_000
PAUSE = 0.1
"""Seconds. A response of `/sync` costs a Synapse more than an event does, so a reader of many answers syncs
ten times a second."""
MARKED_EVERY = 1.0
"""Seconds. For each response of `/sync`, a Synapse counts the person's unread messages again, by thread."""
PROMPT = "What does the scale say? Next reading at noon. " * 4


class Asking:
    """Questions to one answerer. Each has a number, which is in its answer."""

    def __init__(self, people: list[MatrixClient], answerer: Answerer) -> None:
        self._people = itertools.cycle(people)
        self._reader = people[0]
        self._answerer = answerer
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[float]] = {}

    async def lone(self, seconds: float) -> dict[str, Any]:
        """Send questions one after the other, and read without pauses."""
        return await self._keep_asking(seconds, 1, 0.0)

    async def many(self, seconds: float, at_once: int) -> dict[str, Any]:
        """Keep this many questions open at the same time."""
        return await self._keep_asking(seconds, at_once, PAUSE)

    async def _keep_asking(self, seconds: float, at_once: int, pause: float) -> dict[str, Any]:
        wanted = self._filter()
        since: str = (await self._reader.sync_once(filter=wanted))["next_batch"]
        durations: list[float] = []

        async def ask() -> None:
            while perf_counter() < began + seconds:
                durations.append(await self._once())

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(self._read(wanted, since, pause))
            began = perf_counter()
            await asyncio.gather(*(group.create_task(ask()) for _ in range(at_once)))
            took = perf_counter() - began
            reading.cancel()
        return {"durations": durations, "seconds": took}

    async def _once(self) -> float:
        """Measure from sending a question until its answer was read."""
        mark = f"{self._run}-{next(self._numbers)}."
        answered = self._waiting[mark] = asyncio.get_running_loop().create_future()
        began = perf_counter()
        try:
            await next(self._people).send(self._answerer.room_id, "m.room.message", self._content(mark))
            async with asyncio.timeout(TIMEOUT):
                read: float = await answered
                return read - began
        except TimeoutError:
            raise AssertionError(f"{self._answerer.user_id} has not answered in {TIMEOUT:g} s") from None
        finally:
            del self._waiting[mark]

    def _content(self, mark: str) -> dict[str, Any]:
        """Return a mention as Element writes it."""
        to, said = self._answerer, f"{PROMPT}{mark}"
        return {
            "msgtype": "m.text",
            "body": f"{to.name}: {said}",
            "format": "org.matrix.custom.html",
            "formatted_body": f'<a href="https://matrix.to/#/{to.user_id}">{to.name}</a>: {said}',
            "m.mentions": {"user_ids": [to.user_id]},
        }

    def _filter(self) -> str:
        """Return a filter for messages in that room only: the least that a client can request."""
        nothing: dict[str, Any] = {"types": []}
        room = {
            # Synapse caches the first response to a filter for two minutes, so each filter is unique.
            "rooms": [self._answerer.room_id, f"!{secrets.token_hex(8)}:nowhere"],
            "timeline": {"types": ["m.room.message"], "limit": 1000},
            **dict.fromkeys(("state", "ephemeral", "account_data"), nothing),
        }
        return json.dumps({"presence": nothing, "account_data": nothing, "room": room})

    async def _read(self, wanted: str, since: str, pause: float) -> None:
        marked = perf_counter()
        while True:
            answer = await self._reader.sync_once(since=since, timeout_ms=WAIT_MS, filter=wanted)
            now = perf_counter()
            since = answer["next_batch"]
            room = answer.get("rooms", {}).get("join", {}).get(self._answerer.room_id)
            if room is not None:
                assert not room["timeline"]["limited"], "more was said than is read at once"
                events = room["timeline"]["events"]
                for event in events:
                    self._seen(event, now)
                if events and now - marked >= MARKED_EVERY:
                    marked = now
                    await self._reader.read(self._answerer.room_id, events[-1]["event_id"])
            await asyncio.sleep(pause)

    def _seen(self, event: Mapping[str, Any], now: float) -> None:
        if event["sender"] != self._answerer.user_id:
            return
        mark = str(event["content"].get("body", "")).rpartition(" ")[2]
        waiting = self._waiting.get(mark)
        if waiting is not None and not waiting.done():
            waiting.set_result(now)
