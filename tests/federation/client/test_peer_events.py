"""Requests for events to another node, and invalid responses."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from federation.client.errors import PeerMalformed
from federation.client.peer_events import FederationEventClient, StateIds
from federation.matrix.errors import PeerError
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server


async def test_every_request_is_answered(postgres_server: Server, migrated_template: str) -> None:
    """By the endpoints of another node."""
    async with room_pair(postgres_server, migrated_template) as pair:
        messages = [await pair.says(str(number)) for number in range(3)]
        events, peer = FederationEventClient(pair.asking.client), pair.asked.name
        ids = await events.state_ids(peer, pair.room_id, messages[0].event_id)
        assert set(ids.pdu_ids) == set(await pair.current())
        state = await events.state(peer, pair.room_id, messages[0].event_id)
        assert (len(state.pdus), len(state.auth_chain)) == (len(ids.pdu_ids), len(ids.auth_chain_ids))
        assert await events.event(peer, messages[0].event_id) == messages[0].event
        chain = await events.event_auth(peer, pair.room_id, messages[0].event_id)
        assert {event["type"] for event in chain} >= {"m.room.create", "m.room.member"}
        found = await events.missing_events(
            peer, pair.room_id, earliest=[messages[0].event_id], latest=[messages[2].event_id], limit=5, min_depth=0
        )
        assert found == [messages[1].event]
        assert await events.backfill(peer, pair.room_id, [messages[1].event_id], 2) == [
            messages[1].event,
            messages[0].event,
        ]
        with pytest.raises(PeerError):
            await events.event(peer, "$none")


class Answering:
    """A client for which every server returns the same response."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self._answer = answer

    async def request(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._answer


QUESTIONS: list[Callable[[FederationEventClient], Awaitable[Any]]] = [
    lambda events: events.missing_events("p", "!r:p", earliest=[], latest=["$a"], limit=1, min_depth=0),
    lambda events: events.state_ids("p", "!r:p", "$a"),
    lambda events: events.state("p", "!r:p", "$a"),
    lambda events: events.event("p", "$a"),
    lambda events: events.event_auth("p", "!r:p", "$a"),
    lambda events: events.backfill("p", "!r:p", ["$a"], 1),
]


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {key: {} for key in ("events", "pdus", "pdu_ids", "auth_chain", "auth_chain_ids")},
        {"events": None, "pdus": "x", "pdu_ids": [1], "auth_chain": 5, "auth_chain_ids": []},
        {"events": None, "pdus": None, "pdu_ids": ["$\0"], "auth_chain": None, "auth_chain_ids": []},
    ],
)
async def test_an_invalid_response_is_the_peers_fault(answer: dict[str, Any]) -> None:
    """PeerMalformed."""
    for question in QUESTIONS:
        with pytest.raises(PeerMalformed):
            await question(FederationEventClient(Answering(answer)))


async def test_a_response_with_two_events() -> None:
    """It is invalid for a request for one."""
    with pytest.raises(PeerMalformed, match="2 events"):
        await FederationEventClient(Answering({"pdus": [{}, {}]})).event("p", "$a")
    assert await FederationEventClient(Answering({"pdu_ids": [], "auth_chain_ids": []})).state_ids(
        "p", "!r:p", "$a"
    ) == StateIds((), ())
