"""Looks for a homeserver that does not answer, and lets everybody wait meanwhile: the gate of its client."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.homeserver.api import HomeserverAway
from appservice.homeserver.availability import (
    Answered,
    Effect,
    Heard,
    HomeserverWatch,
    Input,
    Look,
    Looked,
    Lost,
    Opened,
    Ping,
    Pinged,
    Reached,
    Shut,
    State,
    Tick,
    Unreached,
)
from appservice.observer import AppserviceObserver
from appservice.registration.check import WHOAMI, NoAnswer, wrong_ping, wrong_whoami
from appservice.registration.registration import Registration, Wanted
from appservice.registration.run_check import ask_for_ping
from storage.concurrency import BackgroundTasks

TIMEOUT: Final = 10.0
"""Seconds for which a request waits for one that is away. A homeserver that is started again is back in that
time most often; whoever is told that it is away comes again later."""
LOOK_TIMEOUT: Final = 20.0
MOST_PINGS: Final = 16


class Watch:
    """Knows whether the homeserver is there. Between `start` and `close` it looks; it is started once the
    homeserver has been seen to be there."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        registration: Registration,
        wanted: Wanted,
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
        self._machine = HomeserverWatch(self._heard_at)
        self._open = asyncio.Event()
        self._open.set()
        self._wrong = ""
        self._changed = asyncio.Event()
        self._pings: dict[str, bool] = {}
        self._tasks = BackgroundTasks()
        self._back: Callable[[], None] = lambda: None

    def tell_when_back(self, back: Callable[[], None]) -> None:
        """Before those who waited go on."""
        self._back = back

    def start(self) -> None:
        self._tasks.supervise("watch on the homeserver", self._keep_time)

    async def close(self) -> None:
        await self._tasks.close()
        # Who still waits is told so, and waits for nothing any more.
        self._open.set()

    # -- for the client --

    async def passed(self) -> None:
        if self._open.is_set():
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._open.wait()
        except TimeoutError:
            raise HomeserverAway(self._url, "it was looked for, and is not back yet") from None

    def lost(self, away: HomeserverAway) -> None:
        self._receive(Lost())

    def answered(self) -> None:
        """With each request, so that it costs nothing while all is well."""
        if self._machine.state is State.AWAY:
            self._receive(Answered())

    # -- for the port --

    def sent_something(self) -> None:
        """The homeserver has reached us."""
        self._heard()

    def pinged(self, transaction_id: str | None) -> None:
        """The homeserver has brought a ping."""
        if transaction_id in self._pings:
            self._pings[transaction_id] = True
        self._heard()

    # -- for whoever shows it --

    @property
    def is_there(self) -> bool:
        return self._machine.state is not State.AWAY

    @property
    def wrong(self) -> str | None:
        """A sentence of what is the matter; None if all is well."""
        return self._wrong or None

    def ask_for_ping(self) -> None:
        """Have it reach us, and send at once what it has kept."""
        self._tasks.spawn("look at the homeserver", self._ping())

    async def ping(self) -> str | None:
        """Have it reach us; why it does not."""
        transaction_id = secrets.token_hex(8)
        while len(self._pings) >= MOST_PINGS:
            del self._pings[next(iter(self._pings))]
        self._pings[transaction_id] = False
        try:
            heard = await ask_for_ping(self._session, self._url, self._registration, transaction_id)
            wrong = wrong_ping(heard, self._registration, came=self._pings.get(transaction_id, False))
        finally:
            self._pings.pop(transaction_id, None)
        if wrong is None:
            self._observer.pinged()
        return wrong

    # -- inside --

    def _heard(self) -> None:
        """While all is well it is noted, and told to the machine when it counts."""
        self._heard_at = self._monotonic()
        if self._wrong:
            self._receive(Heard())

    def _receive(self, happened: Input) -> None:
        for effect in self._machine.receive(happened, self._monotonic()):
            self._carry_out(effect)
        self._changed.set()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Look():
                self._tasks.spawn("look at the homeserver", self._look())
            case Ping():
                self._tasks.spawn("look at the homeserver", self._ping())
            case Shut():
                self._wrong = effect.wrong
                self._open.clear()
                self._observer.away(effect.wrong)
            case Opened():
                self._wrong = ""
                self._back()
                self._open.set()
                self._observer.back(effect.seconds)
            case Unreached():
                self._wrong = effect.wrong
                self._observer.unreached(effect.wrong)
            case Reached():
                self._wrong = ""
                self._observer.reached()

    async def _look(self) -> None:
        """It has to know us, too: what is sent to one that does not is refused, all of it."""
        try:
            async with asyncio.timeout(LOOK_TIMEOUT):
                token = self._registration.secrets.as_token
                heard = await ask(self._session, "GET", self._url + WHOAMI, token)
        except TimeoutError:
            heard = NoAnswer("it took too long")
        match heard:
            case NoAnswer():
                wrong: str | None = f"The homeserver does not answer at {self._url} ({heard.reason})."
            case _ if heard.status >= 500:
                wrong = f"The homeserver at {self._url} is in trouble ({heard.errcode})."
            case _:
                wrong = wrong_whoami(heard, self._registration, self._wanted)
        self._receive(Looked(wrong))

    async def _ping(self) -> None:
        self._receive(Pinged(await self.ping()))

    async def _keep_time(self) -> None:
        while True:
            self._changed.clear()
            deadline = self._machine.deadline()
            left = None if deadline is None else deadline - self._monotonic()
            if left is not None and left <= 0:
                if self.is_there:
                    self._machine.receive(Heard(), self._heard_at)
                self._receive(Tick())
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._changed.wait()
