"""Questions about devices to other servers, answered by a real one; and answers that are none."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from federation.device_answers import DeviceKeys, UserDevices
from federation.peer_errors import PeerMalformed, PeerRefused
from federation.service.peer_devices import LARGEST_ANSWER, PeerDevices
from tests.federation.wire.key_nodes import key_pair
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.postgres import Server


async def test_every_question_is_answered(postgres_server: Server, migrated_template: str) -> None:
    """By the endpoints of another node, whose users have no devices."""
    async with key_pair(postgres_server, migrated_template) as pair:
        ask, alice, peer = PeerDevices(pair.asking.client), pair.alice, pair.asked.name
        assert await ask.devices(alice) == UserDevices(alice, 0, ())
        assert await ask.keys(peer, {alice: []}) == DeviceKeys({alice: {}})
        assert await ask.claim(peer, {alice: {"ABC": "signed_curve25519"}}) == {}
        with pytest.raises(PeerRefused, match="404"):
            await ask.devices(pair.asked.user("nobody"))


async def test_what_is_asked_is_what_the_specification_says(neighbourhood: Neighbourhood) -> None:
    """The body of a question, and the key that comes back."""
    key = {"signed_curve25519:AAAB": {"key": "x", "signatures": {}}}
    server = await neighbourhood.server(answering({"one_time_keys": {}, "device_keys": {}}), "a.test")
    name = f"a.test:{server.port}"
    alice = f"@alice:{name}"
    ask = PeerDevices(neighbourhood.reach().client)
    await ask.keys(name, {alice: ("A", "B")})
    assert server.bodies[-1] == b'{"device_keys":{"%b":["A","B"]}}' % alice.encode()
    server.handler = answering({"one_time_keys": {alice: {"A": key}}})
    assert await ask.claim(name, {alice: {"A": "signed_curve25519"}}) == {alice: {"A": key}}
    assert server.bodies[-1] == b'{"one_time_keys":{"%b":{"A":"signed_curve25519"}}}' % alice.encode()


QUESTIONS: list[Callable[[PeerDevices, str], Awaitable[Any]]] = [
    lambda ask, name: ask.devices(f"@alice:{name}"),
    lambda ask, name: ask.keys(name, {f"@alice:{name}": []}),
    lambda ask, name: ask.claim(name, {f"@alice:{name}": {"A": "x"}}),
]


@pytest.mark.parametrize("question", QUESTIONS)
async def test_what_is_no_answer_is_the_peers_fault(
    neighbourhood: Neighbourhood, question: Callable[[PeerDevices, str], Awaitable[Any]]
) -> None:
    """Whatever is wrong with it, its size included."""
    server = await neighbourhood.server(answering({}), "a.test")
    ask = PeerDevices(neighbourhood.reach().client)
    wrong: list[Any] = [{}, [], b"x", {"user_id": 5, "device_keys": [], "one_time_keys": 5}]
    for answer in wrong:
        server.handler = answering(answer)
        with pytest.raises(PeerMalformed):
            await question(ask, f"a.test:{server.port}")

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(LARGEST_ANSWER + 1)})
        await response.prepare(request)
        return response

    server.handler = endless
    with pytest.raises(PeerMalformed, match="more than"):
        await question(ask, f"a.test:{server.port}")
