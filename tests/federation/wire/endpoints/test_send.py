"""`PUT /_matrix/federation/v1/send/{txnId}`."""

from tests.federation.wire.membership_pair import V1
from tests.federation.wire.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/send/{{txnId}}"


async def test_a_transaction_is_taken_in_and_answered(
    postgres_server: Server, migrated_template: str
) -> None:
    """And once more with the same words."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = await pair.asking.graph.send_event(pair.room_id, "m.room.message", {}, pair.bob)
        body = {"pdus": [said.event], "edus": [{"edu_type": "org.example.unknown", "content": {}}]}
        for _ in range(2):
            assert await pair.put(PATH, body, txnId="1 / ?") == {"pdus": {said.event_id: {}}}
        assert await pair.asked.graph.events([said.event_id]) == {said.event_id: said}


async def test_what_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """Too much, and whoever does not say who he is."""
    async with room_pair(postgres_server, migrated_template) as pair:
        many = pair.put(PATH, {"pdus": [{}] * 51}, txnId="1")
        assert await pair.refusal(many) == (400, "M_TOO_LARGE")
        assert await pair.unsigned("PUT", f"{V1}/send/1") == (401, "M_UNAUTHORIZED")
