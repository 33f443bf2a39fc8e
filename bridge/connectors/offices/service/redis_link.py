"""To other processes of this node by a Redis, in a channel of its own.

python-socketio has a manager for this; it does not say when it listens again after the broker was away, and
keeps the order of what is said only as long as nobody says two things at once.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from bridge.connectors.offices.broker_address import BrokerAddress
from bridge.connectors.offices.service.broker import BrokerAway
from storage.errors import LocalError

CONNECTED_WITHIN: Final = 5.0
ASKED_EVERY: Final = 10.0
"""Seconds of silence after which it is asked whether it is still there."""


class RedisLink:
    """LocalError when what it takes is not installed."""

    def __init__(self, address: BrokerAddress, channel: str) -> None:
        # Only whoever uses it has it.
        try:
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError:
            raise LocalError(
                "offices.broker names a Redis, and what speaks with one is not installed.",
                "Install the package redis where Palaver is installed; palaver[redis] brings it.",
            ) from None
        self._broken: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._channel = channel
        self._redis: Any = redis.Redis.from_url(
            address.url,
            password=address.password,
            socket_connect_timeout=CONNECTED_WITHIN,
            socket_timeout=None,
            health_check_interval=ASKED_EVERY,
            # Whoever says something is told that it was lost, and whoever listens has to know it.
            retry=Retry(NoBackoff(), 0),
        )

    async def send(self, data: bytes) -> None:
        try:
            await self._redis.publish(self._channel, data)
        except self._broken as error:
            raise BrokerAway(_reason(error)) from None

    async def listen(self, began: Callable[[], None]) -> AsyncIterator[bytes]:
        pubsub = self._redis.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while True:
                # Without a message for so long the next turn asks whether it is still there.
                message = await pubsub.get_message(timeout=ASKED_EVERY)
                if message is None:
                    await pubsub.check_health()
                elif message["type"] == "subscribe":
                    began()
                elif message["type"] == "message":
                    yield message["data"]
        except self._broken as error:
            # Those by which something was said before have ended with this one, and would only find out then.
            await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise BrokerAway(_reason(error)) from None
        finally:
            await pubsub.aclose()

    async def close(self) -> None:
        await self._redis.aclose()


def _reason(error: Exception) -> str:
    """What a Redis says of a password does not hold it; its first line is enough."""
    said = str(error).strip().splitlines()
    return (said[0] if said else type(error).__name__).rstrip(".")
