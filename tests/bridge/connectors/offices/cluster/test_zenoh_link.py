"""The link through a Zenoh router."""

import sys

import pytest

from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from bridge.connectors.offices.cluster.links import ZenohLink
from storage.errors import LocalError
from tests.bridge.connectors.offices.brokers import zenoh_router
from tests.bridge.connectors.offices.cluster.link_contract import fulfils_contract, reports_unavailable
from tests.support.ports import lasting_port


async def test_a_link() -> None:
    async with zenoh_router() as router:
        await fulfils_contract(lambda: ZenohLink(router.address, "palaver/a"), router)


async def test_the_router_is_unavailable() -> None:
    link = ZenohLink(BrokerAddress("zenoh", f"tcp/127.0.0.1:{lasting_port()}"), "palaver/a")
    await reports_unavailable(link)


async def test_the_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice names it."""
    monkeypatch.setitem(sys.modules, "zenoh", None)
    with pytest.raises(LocalError, match="not installed") as caught:
        ZenohLink(BrokerAddress("zenoh", "tcp/127.0.0.1:7447"), "palaver/a")
    assert "palaver[zenoh]" in str(caught.value.advice)
