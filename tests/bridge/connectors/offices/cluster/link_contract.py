"""The contract of every link, whichever broker it leads to."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bridge.connectors.offices.cluster.broker import BrokerUnavailable, Link
from tests.bridge.connectors.offices.brokers import TIMEOUT, RedisServer, ZenohRouter


@dataclass
class Listener:
    """`subscribed` counts the calls of `on_subscribed`; `errors` are the messages of `BrokerUnavailable`."""

    link: Link
    received: list[bytes] = field(default_factory=list)
    subscribed: int = 0
    errors: list[str] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._listen())

    async def wait_for(self, condition: Callable[["Listener"], bool]) -> None:
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
                async for data in self.link.listen(self._on_subscribed):
                    self.received.append(data)
            except BrokerUnavailable as error:
                self.errors.append(str(error))
            await asyncio.sleep(0.1)

    def _on_subscribed(self) -> None:
        self.subscribed += 1


async def fulfils_contract(make: Callable[[], Link], broker: ZenohRouter | RedisServer) -> None:
    """Other listeners receive messages of any size in order. While the broker is unavailable, the sender gets
    an error; when it is back, all listeners know that they may have missed messages."""
    one, other = Listener(make()), Listener(make())
    try:
        for listener in (one, other):
            listener.start()
        for listener in (one, other):
            await listener.wait_for(lambda listener: listener.subscribed == 1)
        messages = [*(str(number).encode() for number in range(200)), bytes(range(256)) * 20_000]
        for data in messages:
            await one.link.send(data)
        await other.wait_for(lambda other: len(other.received) == len(messages))
        assert other.received == messages
        assert set(one.received) <= set(messages), "a link may or may not receive its own messages"

        await broker.close()
        for listener in (one, other):
            await listener.wait_for(lambda listener: len(listener.errors) > 0)
            assert "secret" not in "".join(listener.errors)
        try:
            await one.link.send(b"lost")
        except BrokerUnavailable:
            pass
        else:
            raise AssertionError("send must fail")

        await broker.open()
        for listener in (one, other):
            await listener.wait_for(lambda listener: listener.subscribed == 2)
        with suppress(BrokerUnavailable):
            await one.link.send(b"found")
        await one.link.send(b"again")
        await other.wait_for(lambda other: other.received[-1] == b"again")
        assert b"lost" not in other.received
    finally:
        await one.close()
        await other.close()


async def reports_unavailable(link: Link) -> None:
    """Without a broker, both directions fail, and neither hangs."""
    listener = Listener(link)
    listener.start()
    await listener.wait_for(lambda listener: len(listener.errors) > 0)
    assert listener.subscribed == 0
    try:
        await link.send(b"lost")
    except BrokerUnavailable:
        pass
    else:
        raise AssertionError("send must fail")
    await listener.close()
