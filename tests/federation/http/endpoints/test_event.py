"""`GET /_matrix/federation/v1/event/{eventId}`."""

import pytest

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/event/{{eventId}}"


@pytest.mark.parametrize("version", ["11", "12"])
async def test_an_event_is_returned_unchanged(version: str, postgres_server: Server, migrated_template: str) -> None:
    """With the name of this server and the time; a create event has a room id if its version requires it."""
    async with room_pair(postgres_server, migrated_template, version) as pair:
        said = await pair.says("hello")
        answer = await pair.get(PATH, eventId=said.event_id)
        assert answer["pdus"] == [said.event]
        assert answer["origin"] == pair.asked.name
        assert isinstance(answer["origin_server_ts"], int)
        create = (await pair.asked.graph.current_state(pair.room_id))["m.room.create", ""]
        (given,) = (await pair.get(PATH, eventId=create))["pdus"]
        assert ("room_id" in given) == (version == "11")


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown events, events of other rooms, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        assert await pair.refusal(pair.get(PATH, eventId="$none")) == (404, "M_NOT_FOUND")
        other = await pair.asked.create("12", pair.alice)
        secret = await pair.asked.say(other, pair.alice, "secret")
        assert await pair.refusal(pair.get(PATH, eventId=secret)) == (403, "M_FORBIDDEN")
        assert await pair.unsigned("GET", f"{V1}/event/$x") == (401, "M_UNAUTHORIZED")
