"""`POST /_matrix/federation/v1/get_missing_events/{roomId}`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/get_missing_events/{{roomId}}"


async def test_events_between_others(postgres_server: Server, migrated_template: str) -> None:
    """Oldest first; ten by default and at most twenty."""
    async with room_pair(postgres_server, migrated_template) as pair:
        said = [await pair.says(str(number)) for number in range(25)]
        body = {"earliest_events": [said[1].event_id], "latest_events": [said[4].event_id]}
        answer = await pair.post(PATH, body, roomId=pair.room_id)
        assert answer == {"events": [said[2].event, said[3].event]}
        body = {"earliest_events": [], "latest_events": [said[24].event_id]}
        assert len((await pair.post(PATH, body, roomId=pair.room_id))["events"]) == 10
        many = await pair.post(PATH, {**body, "limit": 1000}, roomId=pair.room_id)
        assert many["events"] == [pdu.event for pdu in said[4:24]]
        recent = await pair.post(PATH, {**body, "min_depth": said[22].depth}, roomId=pair.room_id)
        assert recent["events"] == [said[22].event, said[23].event]


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Invalid lists of event ids, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        wrong = pair.post(PATH, {"latest_events": {}}, roomId=pair.room_id)
        assert await pair.refusal(wrong) == (400, "M_BAD_JSON")
        elsewhere = pair.post(PATH, {}, roomId="!none:asked.test")
        assert await pair.refusal(elsewhere) == (403, "M_FORBIDDEN")
        assert await pair.unsigned("POST", f"{V1}/get_missing_events/!x:y") == (401, "M_UNAUTHORIZED")
