"""`GET /_matrix/federation/v1/state_ids/{roomId}`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server

PATH = f"{V1}/state_ids/{{roomId}}"


async def test_the_state_before_an_event_as_ids(postgres_server: Server, migrated_template: str) -> None:
    """For each event that this server has sent."""
    async with room_pair(postgres_server, migrated_template) as pair:
        state = await pair.current()
        said = await pair.says("hello")
        answer = await pair.get(PATH, query=(("event_id", said.event_id),), roomId=pair.room_id)
        assert set(answer) == {"pdu_ids", "auth_chain_ids"}
        assert set(answer["pdu_ids"]) == set(state)
        assert set(answer["auth_chain_ids"]) <= set(state)
        assert answer["auth_chain_ids"]


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Missing and unknown event ids, inaccessible rooms, and unsigned requests."""
    async with room_pair(postgres_server, migrated_template) as pair:
        assert await pair.refusal(pair.get(PATH, roomId=pair.room_id)) == (400, "M_MISSING_PARAM")
        query = (("event_id", "$none"),)
        assert await pair.refusal(pair.get(PATH, query=query, roomId=pair.room_id)) == (404, "M_NOT_FOUND")
        for room_id in (await pair.asked.create("12", pair.alice), "!none:asked.test", "!\0:asked.test"):
            assert await pair.refusal(pair.get(PATH, query=query, roomId=room_id)) == (403, "M_FORBIDDEN")
        assert await pair.unsigned("GET", f"{V1}/state_ids/!x:y") == (401, "M_UNAUTHORIZED")


async def test_a_server_denied_by_the_acl_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """Although it is in the room."""
    async with room_pair(postgres_server, migrated_template) as pair:
        acl = {"allow": ["*"], "deny": ["asking.*"]}
        sent = await pair.asked.graph.send_event(pair.room_id, "m.room.server_acl", acl, pair.alice, "")
        query = (("event_id", sent.event_id),)
        assert await pair.refusal(pair.get(PATH, query=query, roomId=pair.room_id)) == (403, "M_FORBIDDEN")
