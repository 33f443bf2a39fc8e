"""`PUT /_matrix/federation/v2/send_join/{roomId}/{eventId}`."""

import pytest

from federation.client.errors import PeerMalformed
from tests.federation.http.membership_pair import V1, V2, membership_pair
from tests.support.postgres import Server

PATH = f"{V2}/send_join/{{roomId}}/{{eventId}}"
OLD = f"{V1}/send_join/{{roomId}}/{{eventId}}"


async def test_the_join_is_accepted(postgres_server: Server, migrated_template: str) -> None:
    """It is in the room before the response."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "public")
        event = await pair.event("join", room_id)
        answer = await pair.put(PATH, event.event, roomId=room_id, eventId=event.event_id)
        assert answer["event"] == event.event
        assert answer["members_omitted"] is False
        assert {"state", "auth_chain"} <= answer.keys()
        # In a room with few members all are sent, even with `omit_members`.
        query = (("omit_members", "true"),)
        assert answer == await pair.put(PATH, event.event, query=query, roomId=room_id, eventId=event.event_id)
        assert await pair.asked.membership_of(room_id, pair.bob) == "join"


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown rooms, an event id that differs from the path, and unsigned requests."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "public")
        event = await pair.event("join", room_id)
        unknown = pair.put(PATH, event.event, roomId="!none:asked.test", eventId=event.event_id)
        assert await pair.refusal(unknown) == (404, "M_NOT_FOUND")
        other = pair.put(PATH, event.event, roomId=room_id, eventId="$other")
        assert await pair.refusal(other) == (400, "M_INVALID_PARAM")
        nothing = pair.put(PATH, {}, roomId=room_id, eventId=event.event_id)
        assert await pair.refusal(nothing) == (400, "M_BAD_JSON")
        path = f"{V2}/send_join/!a:b.c/$e"
        assert await pair.unsigned("PUT", path) == (401, "M_UNAUTHORIZED")


async def test_the_v1_endpoint(postgres_server: Server, migrated_template: str) -> None:
    """The response is a list of status and body."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "public")
        event = await pair.event("join", room_id)
        with pytest.raises(PeerMalformed, match="not a JSON object"):
            await pair.put(OLD, event.event, roomId=room_id, eventId=event.event_id)
        assert await pair.asked.membership_of(room_id, pair.bob) == "join"
