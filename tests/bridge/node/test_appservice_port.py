"""The homeserver's port of an attached node, before and after the node has started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from appservice.intake.transaction import Transaction
from appservice.registration.namespaces import AgentRoom
from appservice.registration.registration import make
from bridge.config.appservice import AppService, wanted
from bridge.node.appservice_port import MAX_PINGS, AppservicePort
from bridge.observability.metrics import Metrics
from bridge.observability.observer import ListenerObserver
from storage.errors import LocalError
from tests.appservice.registration.test_registration import SECRETS
from tests.support.ports import lasting_port, take

AGENT = "users/%40_agent_worker-1:their.server"
ASKED = (
    AGENT,
    "rooms/%23agents-default:their.server",
    "thirdparty/user/agents?agent=worker-1",
    "thirdparty/location/agents?namespace=default",
)


@dataclass
class Village:
    """Receives everything and has every agent and room."""

    taken: list[str] = field(default_factory=list)

    async def receive(self, transaction_id: str, transaction: Transaction) -> bool:
        self.taken.append(transaction_id)
        return True

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        return True

    async def provide_room(self, room: AgentRoom) -> bool:
        return True

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return True

    async def knows_room(self, room: AgentRoom) -> bool:
        return True


@dataclass
class House:
    """The homeserver."""

    port: AppservicePort
    number: int

    async def ask(self, method: str, path: str, body: Any = None) -> int:
        headers = {"Authorization": f"Bearer {SECRETS.hs_token}"}
        url = f"http://127.0.0.1:{self.number}/_matrix/app/v1/{path}"
        async with aiohttp.ClientSession(headers=headers) as session, session.request(method, url, json=body) as answer:
            return answer.status


def _port(number: int) -> AppservicePort:
    section = AppService(homeserver="http://127.0.0.1:1", domain="their.server", port=number)
    said = wanted(section, "kitchen.local")
    return AppservicePort(section, make(said, SECRETS), said, ListenerObserver(Metrics()))


@asynccontextmanager
async def _opened() -> AsyncIterator[House]:
    number = lasting_port()
    port = _port(number)
    try:
        port.bind()
        await port.start()
        yield House(port, number)
    finally:
        await port.close()


async def test_early_requests_get_503() -> None:
    """Except pings, which show that the homeserver reaches the node."""
    async with _opened() as house:
        for path in ASKED:
            assert await house.ask("GET", path) == 503
        assert await house.ask("PUT", "transactions/1", {"events": []}) == 503
        assert not house.port.has_received("one")
        assert await house.ask("POST", "ping", {"transaction_id": "one"}) == 200
        assert house.port.has_received("one")
        # Queries show which names the homeserver has reserved.
        assert not house.port.has_received("=check-1")
        assert await house.ask("GET", "rooms/%23office-=check-1:their.server") == 503
        assert house.port.has_received("=check-1")
        # The number is limited.
        for number in range(MAX_PINGS):
            await house.ask("POST", "ping", {"transaction_id": f"more-{number}"})
        assert not house.port.has_received("one")


async def test_transactions_before_queries() -> None:
    """The node is still starting then; the caller learns whether a transaction was refused before."""
    for was_early in (False, True):
        village, pings = Village(), list[str | None]()
        async with _opened() as house:
            if was_early:
                await house.ask("PUT", "transactions/1", {"events": []})
            assert house.port.serve_transactions(village, pings.append) is was_early
            assert await house.ask("PUT", "transactions/1", {"events": []}) == 200
            assert await house.ask("POST", "ping", {"transaction_id": "one"}) == 200
            assert await house.ask("GET", AGENT) == 503
            house.port.serve_queries(village)
            for path in ASKED:
                assert await house.ask("GET", path) == 200
        assert (village.taken, pings) == (["1"], ["one"])


async def test_close_releases_everything() -> None:
    """In any state."""
    number = lasting_port()
    port = _port(number)
    await port.close()
    port.bind()
    with pytest.raises(LocalError, match=str(number)):
        _port(number).bind()
    await port.close()
    await port.close()
    with take(number):
        pass
