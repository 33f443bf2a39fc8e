"""Looks for a homeserver that does not answer; a homeserver that comes and goes stands in for a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from appservice.homeserver import availability_monitor as homeserver_watch
from appservice.homeserver.api import HomeserverUnavailable
from appservice.homeserver.availability import PING_AFTER_SILENCE
from appservice.homeserver.availability_monitor import MAX_PINGS, AvailabilityMonitor
from tests.appservice.registration.test_registration import WANTED
from tests.appservice.registration.test_run_check import ME, REGISTRATION, Played
from tests.support.ports import lasting_port

TIMEOUT = 20.0


@dataclass
class Seen:
    """Records what the monitor reports."""

    said: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def unavailable(self, wrong: str) -> None:
        self._note(f"away: {wrong}")

    def available(self, seconds: float) -> None:
        self._note("back")

    def unreachable(self, wrong: str) -> None:
        self._note(f"unreached: {wrong}")

    def reachable(self) -> None:
        self._note("reached")

    def ping_received(self) -> None:
        self._note("pinged")

    def _note(self, text: str) -> None:
        self.said.append(text)
        self.news.set()

    async def until(self, beginning: str) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not any(one.startswith(beginning) for one in self.said):
                self.news.clear()
                await self.news.wait()


@dataclass
class House:
    """It comes and goes on one port."""

    watch: AvailabilityMonitor
    seen: Seen
    played: Played
    port: int
    now: list[float]
    _runner: web.AppRunner | None = None

    async def come(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    async def go(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def lost(self) -> None:
        self.watch.request_failed(HomeserverUnavailable("it", "a test says so"))

    async def _answer(self, request: web.Request) -> web.Response:
        answer = await self.played.answer(request)
        if request.path.endswith("/ping") and answer.status == 200:
            # As a homeserver does that reaches us.
            self.watch.ping_received((await request.json())["transaction_id"])
        return answer


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with _house() as made:
        yield made


@asynccontextmanager
async def _house() -> AsyncIterator[House]:
    port, now, seen = lasting_port(), [0.0], Seen()
    async with aiohttp.ClientSession() as session:
        watch = AvailabilityMonitor(
            session, f"http://127.0.0.1:{port}", REGISTRATION, WANTED, seen,
            monotonic=lambda: now[0] + asyncio.get_running_loop().time(),
        )  # fmt: skip
        house = House(watch, seen, Played(), port, now)
        await house.come()
        watch.start()
        try:
            yield house
        finally:
            await watch.close()
            await house.go()


async def test_who_asks_waits_while_it_is_away(house: House) -> None:
    """And goes on when it is back, of which the homeserver is told by a ping."""
    await house.watch.wait_until_available()
    await house.go()
    house.lost()
    await house.seen.until("away")
    assert house.watch.is_available is False
    assert house.seen.said[0].startswith("away: The homeserver does not respond at http://127.0.0.1:")
    assert f"away: {house.watch.problem}" == house.seen.said[0]

    waiting = asyncio.create_task(house.watch.wait_until_available())
    await house.come()
    async with asyncio.timeout(TIMEOUT):
        await waiting
    await house.seen.until("pinged")
    assert house.seen.said[1:] == ["back", "pinged"]
    assert not house.watch.problem
    assert len(house.played.pinged) == 1


async def test_who_has_waited_for_long_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """He comes again later; whoever holds something while he waits lets go of it."""
    monkeypatch.setattr(homeserver_watch, "TIMEOUT", 0.05)
    await house.go()
    house.lost()
    await house.seen.until("away")
    with pytest.raises(HomeserverUnavailable, match="it is still unavailable"):
        await house.watch.wait_until_available()


async def test_one_request_that_failed_lets_nobody_wait(house: House) -> None:
    """The look that is taken finds it well."""
    for _ in range(20):
        house.lost()
        await house.watch.wait_until_available()
    async with asyncio.timeout(TIMEOUT):
        while not house.played.shown:
            await asyncio.sleep(0.01)
    assert house.watch.is_available
    assert len(house.played.shown) == 1
    assert house.seen.said == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {"errcode": "M_UNKNOWN_TOKEN"}), "The homeserver does not know the as_token"),
        ((502, {}), "reports an internal failure (HTTP status 502)"),
        ((200, {"user_id": "@somebody:other.server"}), "The homeserver's server name is other.server"),
    ],
)
async def test_one_that_does_not_know_us_is_as_good_as_away(
    house: House, answer: tuple[int, Any], sentence: str
) -> None:
    """All that is sent to it would be refused, and be lost."""
    status, body = answer
    house.played.whoami = web.json_response(body, status=status)
    house.lost()
    await house.seen.until("away")
    assert sentence in house.seen.said[0]
    house.played.whoami = ME
    house.watch.request_answered()
    await house.seen.until("back")


async def test_one_that_is_silent_is_asked_to_reach_us(house: House) -> None:
    """It may have given up on us. One that cannot reach us is told of, until it does."""
    house.played.brings_to = (f"http://127.0.0.1:{lasting_port()}", "h" * 43)

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"errcode": "M_CONNECTION_FAILED"}, status=502)

    bring, house.played.answer = house.played.answer, refuse  # type: ignore[method-assign] # it cannot reach us
    house.now[0] += PING_AFTER_SILENCE
    house.watch._changed.set()
    await house.seen.until("unreached: The homeserver cannot reach this node at ")
    assert house.watch.is_available
    await house.watch.wait_until_available()
    house.played.answer = bring  # type: ignore[method-assign] # now it can
    house.watch.traffic_received()
    await house.seen.until("reached")
    assert house.watch.problem is None


async def test_pings_of_others_are_not_ours(house: House) -> None:
    """Only what we asked for counts; and whatever is asked for is forgotten when it was answered."""
    assert await house.watch.ping() is None
    house.watch.ping_received("somebody-else")
    house.watch.ping_received(None)
    assert house.watch._pings == {}
    assert MAX_PINGS > 1


async def test_closed_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """He is not kept waiting by a watch that has ended."""
    async with _house() as house:
        await house.go()
        house.lost()
        await house.seen.until("away")
        waiting = asyncio.create_task(house.watch.wait_until_available())
        await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT):
        await waiting
