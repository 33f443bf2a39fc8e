"""`PUT /_matrix/federation/v1/send/{txnId}`."""

import asyncio
from collections.abc import Mapping
from typing import Any

from federation.client.errors import PeerRefused
from federation.outbox.pacing import WINDOW
from tests.federation.http.membership_pair import V1, Pair
from tests.federation.http.room_pair import room_pair
from tests.federation.nodes import TIMEOUT
from tests.support.postgres import Server

PATH = f"{V1}/send/{{txnId}}"


async def _sent(pair: Pair, body: Mapping[str, Any], txn_id: str) -> Any:
    """Send a transaction, retrying while the node's own outbox sends one: only one at a time is accepted."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                return await pair.put(PATH, body, txnId=txn_id)
            except PeerRefused as refused:
                if refused.status != 429:
                    raise
                await asyncio.sleep(0.01)


async def test_a_transaction_is_received(postgres_server: Server, migrated_template: str) -> None:
    """A repeated one gets the same response."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = await pair.asking.graph.send_event(pair.room_id, "m.room.message", {}, pair.bob)
        body = {"pdus": [said.event], "edus": [{"edu_type": "org.example.unknown", "content": {}}]}
        for _ in range(2):
            answer = await _sent(pair, body, "1 / ?")
            assert answer == {"io.palaver.processed": True, "pdus": {said.event_id: {}}}
        assert await pair.asked.graph.events([said.event_id]) == {said.event_id: said}


async def test_transactions_to_another_palaver_are_not_paced(postgres_server: Server, migrated_template: str) -> None:
    """More events of one room than fit into a staging area are sent without a probe."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = [(await pair.says(str(number))).event_id for number in range(3 * WINDOW)]
        async with asyncio.timeout(TIMEOUT):
            await pair.asking.until(lambda event_id, _: event_id == said[-1])
        assert set(said) == set(await pair.asking.graph.events(said))
        asked = {route for route, _, _ in pair.asking.seen.answered}
        assert asked == {"/_matrix/federation/v1/send/{txn_id}", "/_matrix/key/v2/server"}


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Too many events, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        many = pair.put(PATH, {"pdus": [{}] * 51}, txnId="1")
        assert await pair.refusal(many) == (400, "M_TOO_LARGE")
        assert await pair.unsigned("PUT", f"{V1}/send/1") == (401, "M_UNAUTHORIZED")
