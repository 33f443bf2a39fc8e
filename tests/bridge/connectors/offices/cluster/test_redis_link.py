"""By a Redis."""

import sys

import pytest

from bridge.connectors.offices.cluster.broker import BrokerAway
from bridge.connectors.offices.cluster.links import BrokerAddress, RedisLink
from storage.errors import LocalError
from tests.bridge.connectors.offices.brokers import redis_server
from tests.bridge.connectors.offices.cluster.link_contract import keeps_to_it, nobody_is_there
from tests.support.ports import lasting_port


async def test_a_link() -> None:
    async with redis_server() as server:
        await keeps_to_it(lambda: RedisLink(server.address, "palaver/a"), server)


async def test_nobody_is_there() -> None:
    address = BrokerAddress("redis", f"redis://127.0.0.1:{lasting_port()}/0", "a secret")
    await nobody_is_there(RedisLink(address, "palaver/a"))


async def test_a_wrong_password() -> None:
    """It is said that it is wrong, and not what it is."""
    async with redis_server("right") as server:
        link = RedisLink(BrokerAddress("redis", server.address.url, "hunter2"), "palaver/a")
        with pytest.raises(BrokerAway, match="password") as caught:
            await link.send(b"x")
        assert "hunter2" not in str(caught.value)
        await link.close()


async def test_what_it_takes_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what to install."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(LocalError, match="not installed") as caught:
        RedisLink(BrokerAddress("redis", "redis://127.0.0.1:6379/0"), "palaver/a")
    assert "palaver[redis]" in str(caught.value.advice)
