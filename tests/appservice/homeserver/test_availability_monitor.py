"""The availability monitor, against a fake homeserver that stops and starts."""

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
from tests.appservice.registration.test_run_check import ME, REGISTRATION, FakeHomeserver
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
class FlakyHomeserver:
    """A homeserver that stops and starts on one port."""

    watch: AvailabilityMonitor
    seen: Seen
    fake: FakeHomeserver
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
        answer = await self.fake.answer(request)
        if request.path.endswith("/ping") and answer.status == 200:
            # As a homeserver does that can reach the node.
            self.watch.ping_received((await request.json())["transaction_id"])
        return answer


@pytest.fixture
async def house() -> AsyncIterator[FlakyHomeserver]:
    async with _house() as made:
        yield made


@asynccontextmanager
async def _house() -> AsyncIterator[FlakyHomeserver]:
    port, now, seen = lasting_port(), [0.0], Seen()
    async with aiohttp.ClientSession() as session:
        watch = AvailabilityMonitor(
            session, f"http://127.0.0.1:{port}", REGISTRATION, WANTED, seen,
            monotonic=lambda: now[0] + asyncio.get_running_loop().time(),
        )  # fmt: skip
        house = FlakyHomeserver(watch, seen, FakeHomeserver(), port, now)
        await house.come()
        watch.start()
        try:
            yield house
        finally:
            await watch.close()
            await house.go()


async def test_requests_wait_while_unavailable(house: FlakyHomeserver) -> None:
    """They continue after the recovery, at which a ping is requested."""
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
    assert len(house.fake.pinged) == 1


async def test_waiting_request_times_out(house: FlakyHomeserver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller retries later and releases its resources meanwhile."""
    monkeypatch.setattr(homeserver_watch, "TIMEOUT", 0.05)
    await house.go()
    house.lost()
    await house.seen.until("away")
    with pytest.raises(HomeserverUnavailable, match="it is still unavailable"):
        await house.watch.wait_until_available()


async def test_one_failed_request_does_not_block_others(house: FlakyHomeserver) -> None:
    """The check finds the homeserver available."""
    for _ in range(20):
        house.lost()
        await house.watch.wait_until_available()
    async with asyncio.timeout(TIMEOUT):
        while not house.fake.shown:
            await asyncio.sleep(0.01)
    assert house.watch.is_available
    assert len(house.fake.shown) == 1
    assert house.seen.said == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((401, {"errcode": "M_UNKNOWN_TOKEN"}), "The homeserver does not know the as_token"),
        ((502, {}), "reports an internal failure (HTTP status 502)"),
        ((200, {"user_id": "@somebody:other.server"}), "The homeserver's server name is other.server"),
    ],
)
async def test_unknown_registration_counts_as_unavailable(
    house: FlakyHomeserver, answer: tuple[int, Any], sentence: str
) -> None:
    """It would refuse every request, and messages would be lost."""
    status, body = answer
    house.fake.whoami = web.json_response(body, status=status)
    house.lost()
    await house.seen.until("away")
    assert sentence in house.seen.said[0]
    house.fake.whoami = ME
    house.watch.request_answered()
    await house.seen.until("back")


async def test_silence_requests_a_ping(house: FlakyHomeserver) -> None:
    """A homeserver that cannot reach the node is reported until it can."""
    house.fake.brings_to = (f"http://127.0.0.1:{lasting_port()}", "h" * 43)

    async def refuse(request: web.Request) -> web.Response:
        return web.json_response({"errcode": "M_CONNECTION_FAILED"}, status=502)

    bring, house.fake.answer = house.fake.answer, refuse  # type: ignore[method-assign] # it cannot reach us
    house.now[0] += PING_AFTER_SILENCE
    house.watch._changed.set()
    await house.seen.until("unreached: The homeserver cannot reach this node at ")
    assert house.watch.is_available
    await house.watch.wait_until_available()
    house.fake.answer = bring  # type: ignore[method-assign] # now it can
    house.watch.traffic_received()
    await house.seen.until("reached")
    assert house.watch.problem is None


async def test_only_requested_pings_count(house: FlakyHomeserver) -> None:
    """A requested ping is forgotten once it is answered."""
    assert await house.watch.ping() is None
    house.watch.ping_received("somebody-else")
    house.watch.ping_received(None)
    assert house.watch._pings == {}
    assert MAX_PINGS > 1


async def test_close_releases_waiting_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed monitor blocks no request."""
    async with _house() as house:
        await house.go()
        house.lost()
        await house.seen.until("away")
        waiting = asyncio.create_task(house.watch.wait_until_available())
        await asyncio.sleep(0)
    async with asyncio.timeout(TIMEOUT):
        await waiting
