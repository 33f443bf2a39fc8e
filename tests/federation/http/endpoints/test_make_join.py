"""`GET /_matrix/federation/v1/make_join/{roomId}/{userId}`."""

from tests.federation.http.membership_pair import V1, membership_pair
from tests.support.postgres import Server

PATH = f"{V1}/make_join/{{roomId}}/{{userId}}"


async def test_a_template_is_returned(postgres_server: Server, migrated_template: str) -> None:
    """With the room version; ids in the path are percent-encoded."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "public")
        template = await pair.template("join", room_id)
        assert template["room_version"] == "11"
        assert template["event"]["content"] == {"membership": "join"}
        assert template["event"]["sender"] == template["event"]["state_key"] == pair.bob
        assert "signatures" not in template["event"]
        assert "hashes" not in template["event"]


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Unknown rooms, users of another server, and unsigned requests."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("11", pair.alice, "public")
        unknown = pair.get(PATH, roomId="!none:asked.test", userId=pair.bob)
        assert await pair.refusal(unknown) == (404, "M_NOT_FOUND")
        strange = pair.get(PATH, query=(("ver", "11"),), roomId=room_id, userId="@eve:other.test")
        assert await pair.refusal(strange) == (403, "M_FORBIDDEN")
        older = pair.get(PATH, query=(("ver", "10"),), roomId=room_id, userId=pair.bob)
        assert await pair.refusal(older) == (400, "M_INCOMPATIBLE_ROOM_VERSION")
        assert await pair.refusal(pair.get(PATH, roomId=room_id, userId=pair.bob)) == (
            400,
            "M_INCOMPATIBLE_ROOM_VERSION",
        )
        assert await pair.unsigned("GET", f"{V1}/make_join/!a:b.c/@d:e.f") == (401, "M_UNAUTHORIZED")
