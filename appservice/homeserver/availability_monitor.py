"""Monitors the homeserver's availability and makes the client's requests wait while it is unavailable."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.homeserver.api import HomeserverUnavailable
from appservice.homeserver.availability import (
    AvailabilityMachine,
    CheckFinished,
    CheckHomeserver,
    Effect,
    Input,
    MarkAvailable,
    MarkUnavailable,
    PingFinished,
    PingHomeserver,
    ReportReachable,
    ReportUnreachable,
    RequestAnswered,
    RequestFailed,
    State,
    Tick,
    TrafficReceived,
)
from appservice.observer import AppserviceObserver
from appservice.registration.check import WHOAMI, NoResponse, lacks_pings, ping_problem, whoami_problem
from appservice.registration.registration import Registration, RegistrationSettings
from appservice.registration.run_check import request_ping
from storage.concurrency import BackgroundTasks

TIMEOUT: Final = 10.0
"""Seconds that a request waits for an unavailable homeserver. Most restarts take less; a request that fails
is retried by its caller."""
CHECK_TIMEOUT: Final = 20.0
MAX_PINGS: Final = 16


class AvailabilityMonitor:
    """Knows whether the homeserver is available. It checks between `start` and `close`; call `start` after a
    first successful check."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        registration: Registration,
        wanted: RegistrationSettings,
        observer: AppserviceObserver,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._url = url
        self._registration = registration
        self._wanted = wanted
        self._observer = observer
        self._monotonic = monotonic
        self._heard_at = monotonic()
        self._machine = AvailabilityMachine(self._heard_at)
        self._available = asyncio.Event()
        self._available.set()
        self._problem = ""
        self._changed = asyncio.Event()
        self._pings: dict[str, bool] = {}
        self._tasks = BackgroundTasks()
        self._recovered: Callable[[], None] = lambda: None

    def on_recovery(self, recovered: Callable[[], None]) -> None:
        """`recovered` is called before waiting requests continue."""
        self._recovered = recovered

    def start(self) -> None:
        self._tasks.supervise("homeserver availability", self._run_timer)

    async def close(self) -> None:
        await self._tasks.close()
        # Release waiting requests; they fail by themselves.
        self._available.set()

    # -- for the client --

    async def wait_until_available(self) -> None:
        if self._available.is_set():
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._available.wait()
        except TimeoutError:
            raise HomeserverUnavailable(self._url, "it is still unavailable") from None

    def request_failed(self, away: HomeserverUnavailable) -> None:
        self._receive(RequestFailed())

    def request_answered(self) -> None:
        """Called with every request, so it costs nothing while the homeserver is available."""
        if self._machine.state is State.UNAVAILABLE:
            self._receive(RequestAnswered())

    # -- for the HTTP endpoints --

    def traffic_received(self) -> None:
        """The homeserver has reached this node."""
        self._note_traffic()

    def ping_received(self, transaction_id: str | None) -> None:
        """A ping from the homeserver has arrived."""
        if transaction_id in self._pings:
            self._pings[transaction_id] = True
        self._note_traffic()

    # -- for status reports --

    @property
    def is_available(self) -> bool:
        return self._machine.state is not State.UNAVAILABLE

    @property
    def problem(self) -> str | None:
        """A sentence for the operator; None if there is no problem."""
        return self._problem or None

    def request_ping(self) -> None:
        """Request a ping, which makes the homeserver send its queue immediately."""
        self._tasks.spawn("check of the homeserver", self._ping())

    async def ping(self) -> str | None:
        """Request a ping; return why it failed."""
        transaction_id = secrets.token_hex(8)
        while len(self._pings) >= MAX_PINGS:
            del self._pings[next(iter(self._pings))]
        self._pings[transaction_id] = False
        try:
            result = await request_ping(self._session, self._url, self._registration, transaction_id)
            problem = ping_problem(result, self._registration, was_received=self._pings.get(transaction_id, False))
        finally:
            self._pings.pop(transaction_id, None)
        if problem is None and not lacks_pings(result):
            self._observer.ping_received()
        return problem

    # -- internals --

    def _note_traffic(self) -> None:
        """Record the time; the state machine is only notified when it makes a difference."""
        self._heard_at = self._monotonic()
        if self._problem:
            self._receive(TrafficReceived())

    def _receive(self, input_: Input) -> None:
        for effect in self._machine.receive(input_, self._monotonic()):
            self._apply(effect)
        self._changed.set()

    def _apply(self, effect: Effect) -> None:
        match effect:
            case CheckHomeserver():
                self._tasks.spawn("check of the homeserver", self._check())
            case PingHomeserver():
                self._tasks.spawn("check of the homeserver", self._ping())
            case MarkUnavailable():
                self._problem = effect.problem
                self._available.clear()
                self._observer.unavailable(effect.problem)
            case MarkAvailable():
                self._problem = ""
                self._recovered()
                self._available.set()
                self._observer.available(effect.seconds)
            case ReportUnreachable():
                self._problem = effect.problem
                self._observer.unreachable(effect.problem)
            case ReportReachable():
                self._problem = ""
                self._observer.reachable()

    async def _check(self) -> None:
        """The homeserver also has to know the registration: otherwise it would refuse every request."""
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                token = self._registration.secrets.as_token
                result = await ask(self._session, "GET", self._url + WHOAMI, token)
        except TimeoutError:
            result = NoResponse("the request timed out")
        match result:
            case NoResponse():
                problem: str | None = f"The homeserver does not respond at {self._url} ({result.reason})."
            case _ if result.status >= 500:
                problem = f"The homeserver at {self._url} reports an internal failure ({result.errcode})."
            case _:
                problem = whoami_problem(result, self._registration, self._wanted)
        self._receive(CheckFinished(problem))

    async def _ping(self) -> None:
        self._receive(PingFinished(await self.ping()))

    async def _run_timer(self) -> None:
        while True:
            self._changed.clear()
            deadline = self._machine.deadline()
            remaining = None if deadline is None else deadline - self._monotonic()
            if remaining is not None and remaining <= 0:
                if self.is_available:
                    self._machine.receive(TrafficReceived(), self._heard_at)
                self._receive(Tick())
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(remaining):
                    await self._changed.wait()
