"""`GET /_matrix/federation/v1/state/{roomId}`."""

from federation.events import parse
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/state/{{roomId}}"


async def test_the_state_before_an_event_as_events(postgres_server: Server, migrated_template: str) -> None:
    """As signed."""
    async with room_pair(postgres_server, migrated_template) as pair:
        state = await pair.current()
        said = await pair.says("hello")
        answer = await pair.get(PATH, query=(("event_id", said.event_id),), roomId=pair.room_id)
        parsed = [parse(event, ROOM_VERSIONS["12"]) for event in answer["pdus"]]
        events = await pair.asked.graph.events(state)
        assert set(parsed) == set(events.values())
        assert len(answer["auth_chain"]) >= 1


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """A missing event id, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        assert await pair.refusal(pair.get(PATH, roomId=pair.room_id)) == (400, "M_MISSING_PARAM")
        assert await pair.unsigned("GET", f"{V1}/state/!x:y") == (401, "M_UNAUTHORIZED")
