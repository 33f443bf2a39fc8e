"""What holds of every link, whatever broker it leads to."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bridge.connectors.offices.cluster.broker import BrokerAway, Link
from tests.bridge.connectors.offices.brokers import TIMEOUT, RedisServer, ZenohRouter


@dataclass
class Listening:
    """`began` counts how often nothing was missed any more; `away` holds what was said of the broker."""

    link: Link
    heard: list[bytes] = field(default_factory=list)
    began: int = 0
    away: list[str] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._listen())

    async def until(self, condition: Callable[["Listening"], bool]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition(self):
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.link.close()

    async def _listen(self) -> None:
        while True:
            try:
                async for data in self.link.listen(self._begin):
                    self.heard.append(data)
            except BrokerAway as away:
                self.away.append(str(away))
            await asyncio.sleep(0.1)

    def _begin(self) -> None:
        self.began += 1


async def keeps_to_it(make: Callable[[], Link], broker: ZenohRouter | RedisServer) -> None:
    """What one says the others hear, in its order and however large; who says something while the broker is
    away is told so; and when it is back, all that listen know that they may have missed something."""
    one, other = Listening(make()), Listening(make())
    try:
        for listening in (one, other):
            listening.start()
        for listening in (one, other):
            await listening.until(lambda listening: listening.began == 1)
        said = [*(str(number).encode() for number in range(200)), bytes(range(256)) * 20_000]
        for data in said:
            await one.link.send(data)
        await other.until(lambda other: len(other.heard) == len(said))
        assert other.heard == said
        assert set(one.heard) <= set(said), "whether it hears itself is its own affair"

        await broker.close()
        for listening in (one, other):
            await listening.until(lambda listening: len(listening.away) > 0)
            assert "secret" not in "".join(listening.away)
        try:
            await one.link.send(b"lost")
        except BrokerAway:
            pass
        else:
            raise AssertionError("it was told that it is lost")

        await broker.open()
        for listening in (one, other):
            await listening.until(lambda listening: listening.began == 2)
        with suppress(BrokerAway):
            await one.link.send(b"found")
        await one.link.send(b"again")
        await other.until(lambda other: other.heard[-1] == b"again")
        assert b"lost" not in other.heard
    finally:
        await one.close()
        await other.close()


async def nobody_is_there(link: Link) -> None:
    """Both are told so, and nothing hangs."""
    listening = Listening(link)
    listening.start()
    await listening.until(lambda listening: len(listening.away) > 0)
    assert listening.began == 0
    try:
        await link.send(b"lost")
    except BrokerAway:
        pass
    else:
        raise AssertionError("it was told that it is lost")
    await listening.close()
