"""The link through a Redis."""

import sys

import pytest

from bridge.connectors.offices.cluster.broker import BrokerUnavailable
from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.cluster.links import RedisLink
from storage.errors import LocalError
from tests.bridge.connectors.offices.brokers import redis_server
from tests.bridge.connectors.offices.cluster.link_contract import fulfils_contract, reports_unavailable
from tests.support.ports import lasting_port


async def test_a_link() -> None:
    async with redis_server() as server:
        await fulfils_contract(lambda: RedisLink(server.address, "palaver/a"), server)


async def test_the_server_is_unavailable() -> None:
    address = BrokerAddress("redis", f"redis://127.0.0.1:{lasting_port()}/0", "a secret")
    await reports_unavailable(RedisLink(address, "palaver/a"))


async def test_a_wrong_password() -> None:
    """The error says that it is wrong, but does not repeat it."""
    async with redis_server("right") as server:
        link = RedisLink(BrokerAddress("redis", server.address.url, "hunter2"), "palaver/a")
        with pytest.raises(BrokerUnavailable, match="password") as caught:
            await link.send(b"x")
        assert "hunter2" not in str(caught.value)
        await link.close()


async def test_the_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice names it."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(LocalError, match="not installed") as caught:
        RedisLink(BrokerAddress("redis", "redis://127.0.0.1:6379/0"), "palaver/a")
    assert "palaver[redis]" in str(caught.value.advice)
