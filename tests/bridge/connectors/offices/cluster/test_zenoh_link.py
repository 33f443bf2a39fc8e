"""By a router of Zenoh."""

import sys

import pytest

from bridge.connectors.offices.cluster.links import BrokerAddress, ZenohLink
from storage.errors import LocalError
from tests.bridge.connectors.offices.brokers import zenoh_router
from tests.bridge.connectors.offices.cluster.link_contract import keeps_to_it, nobody_is_there
from tests.support.ports import lasting_port


async def test_a_link() -> None:
    async with zenoh_router() as router:
        await keeps_to_it(lambda: ZenohLink(router.address, "palaver/a"), router)


async def test_nobody_is_there() -> None:
    await nobody_is_there(ZenohLink(BrokerAddress("zenoh", f"tcp/127.0.0.1:{lasting_port()}"), "palaver/a"))


async def test_what_it_takes_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said what to install."""
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(LocalError, match="not installed") as caught:
        ZenohLink(BrokerAddress("zenoh", "tcp/127.0.0.1:7447"), "palaver/a")
    assert "palaver[zenoh]" in str(caught.value.advice)
