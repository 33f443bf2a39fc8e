"""`GET /_matrix/federation/v1/timestamp_to_event/{roomId}`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/timestamp_to_event/{{roomId}}"


async def test_the_event_closest_to_a_timestamp(postgres_server: Server, migrated_template: str) -> None:
    """Before or after it."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = await pair.says("last")
        query = (("ts", str(said.origin_server_ts + 5)), ("dir", "b"))
        answer = await pair.get(PATH, query=query, roomId=pair.room_id)
        assert answer["origin_server_ts"] == said.origin_server_ts
        first = await pair.get(PATH, query=(("ts", "0"), ("dir", "f")), roomId=pair.room_id)
        assert first["origin_server_ts"] <= said.origin_server_ts


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """A missing timestamp, an invalid direction, no event in that direction, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        for query, refused in (
            ((), (400, "M_MISSING_PARAM")),
            ((("ts", "1"), ("dir", "up")), (400, "M_INVALID_PARAM")),
            ((("ts", "1"), ("dir", "b")), (404, "M_NOT_FOUND")),
        ):
            assert await pair.refusal(pair.get(PATH, query=query, roomId=pair.room_id)) == refused
        assert await pair.unsigned("GET", f"{V1}/timestamp_to_event/!x:y") == (401, "M_UNAUTHORIZED")
