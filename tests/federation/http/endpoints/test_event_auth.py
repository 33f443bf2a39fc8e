"""`GET /_matrix/federation/v1/event_auth/{roomId}/{eventId}`."""

import pytest

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/event_auth/{{roomId}}/{{eventId}}"


@pytest.mark.parametrize("version", ["11", "12"])
async def test_the_auth_chain_of_an_event(version: str, postgres_server: Server, migrated_template: str) -> None:
    """With the create event in each room version."""
    async with room_pair(postgres_server, migrated_template, version) as pair:
        said = await pair.says("hello")
        answer = await pair.get(PATH, roomId=pair.room_id, eventId=said.event_id)
        assert {event["type"] for event in answer["auth_chain"]} == {
            "m.room.create",
            "m.room.member",
            "m.room.power_levels",
        }


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown events, events of another room, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        other = await pair.asked.say(await pair.asked.create("12", pair.alice), pair.alice, "secret")
        for event_id in ("$none", other):
            refused = await pair.refusal(pair.get(PATH, roomId=pair.room_id, eventId=event_id))
            assert refused == (404, "M_NOT_FOUND")
        assert await pair.unsigned("GET", f"{V1}/event_auth/!x:y/$z") == (401, "M_UNAUTHORIZED")
