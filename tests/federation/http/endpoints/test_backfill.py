"""`GET /_matrix/federation/v1/backfill/{roomId}`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/backfill/{{roomId}}"


async def test_events_and_those_before_them(postgres_server: Server, migrated_template: str) -> None:
    """Newest first, up to the requested limit, at most a hundred."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = [await pair.says(str(number)) for number in range(5)]
        query = (("v", said[3].event_id), ("v", "$none"), ("limit", "3"))
        answer = await pair.get(PATH, query=query, roomId=pair.room_id)
        assert answer["pdus"] == [pdu.event for pdu in (said[3], said[2], said[1])]
        assert answer["origin"] == pair.asked.name


async def test_a_server_that_has_left_gets_no_events(postgres_server: Server, migrated_template: str) -> None:
    """Not even those from its time in the room."""
    async with room_pair(postgres_server, migrated_template) as pair:
        before = await pair.says("before")
        kick = {"membership": "leave"}
        await pair.asked.graph.send_event(pair.room_id, "m.room.member", kick, pair.alice, pair.bob)
        query = (("v", before.event_id), ("limit", "1"))
        assert await pair.refusal(pair.get(PATH, query=query, roomId=pair.room_id)) == (403, "M_FORBIDDEN")


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Missing or invalid parameters, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        for query, errcode in (
            ((("limit", "1"),), "M_MISSING_PARAM"),
            ((("v", "$a"),), "M_MISSING_PARAM"),
            ((("v", "$a"), ("limit", "many")), "M_INVALID_PARAM"),
        ):
            assert await pair.refusal(pair.get(PATH, query=query, roomId=pair.room_id)) == (400, errcode)
        assert await pair.unsigned("GET", f"{V1}/backfill/!x:y") == (401, "M_UNAUTHORIZED")
