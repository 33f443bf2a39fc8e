"""`PUT /_matrix/federation/v1/send_knock/{roomId}/{eventId}`."""

from tests.federation.http.membership_pair import V1, membership_pair
from tests.support.postgres import Server

PATH = f"{V1}/send_knock/{{roomId}}/{{eventId}}"


async def test_the_knock_is_accepted(postgres_server: Server, migrated_template: str) -> None:
    """It is in the room before the response."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "knock")
        event = await pair.event("knock", room_id)
        answer = await pair.put(PATH, event.event, roomId=room_id, eventId=event.event_id)
        assert answer["knock_room_state"][0]["type"] == "m.room.create"
        assert await pair.asked.membership_of(room_id, pair.bob) == "knock"


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown rooms, an event id that differs from the path, and unsigned requests."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "knock")
        event = await pair.event("knock", room_id)
        unknown = pair.put(PATH, event.event, roomId="!none:asked.test", eventId=event.event_id)
        assert await pair.refusal(unknown) == (404, "M_NOT_FOUND")
        other = pair.put(PATH, event.event, roomId=room_id, eventId="$other")
        assert await pair.refusal(other) == (400, "M_INVALID_PARAM")
        nothing = pair.put(PATH, {}, roomId=room_id, eventId=event.event_id)
        assert await pair.refusal(nothing) == (400, "M_BAD_JSON")
        path = f"{V1}/send_knock/!a:b.c/$e"
        assert await pair.unsigned("PUT", path) == (401, "M_UNAUTHORIZED")
