"""`GET /_matrix/federation/v1/hierarchy/{roomId}`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.query_pair import create_space, put_child, query_pair
from tests.support.postgres import Server

PATH = f"{V1}/hierarchy/{{roomId}}"
OLD = "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{roomId}"


async def test_a_space_and_its_children(postgres_server: Server, migrated_template: str) -> None:
    """Also at the unstable path; only suggested children on request."""
    async with query_pair(postgres_server, migrated_template) as pair:
        space = await create_space(pair.asked, pair.alice)
        room_id = await pair.asked.create("12", pair.alice)
        suggested = await pair.asked.create("12", pair.alice)
        await put_child(pair.asked, space, room_id, pair.alice, order="a")
        await put_child(pair.asked, space, suggested, pair.alice, order="b", suggested=True)
        answer = await pair.get(PATH, roomId=space)
        assert answer["room"]["room_id"] == space
        assert [one["state_key"] for one in answer["room"]["children_state"]] == [room_id, suggested]
        assert [one["room_id"] for one in answer["children"]] == [room_id, suggested]
        assert answer["inaccessible_children"] == []
        assert await pair.get(OLD, roomId=space) == answer
        for path in (PATH, OLD):
            few = await pair.get(path, roomId=space, query=(("suggested_only", "true"),))
            assert [one["room_id"] for one in few["children"]] == [suggested]


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Invalid, unknown and inaccessible rooms."""
    async with query_pair(postgres_server, migrated_template) as pair:
        closed = await create_space(pair.asked, pair.alice, "invite")
        for room_id, refusal in (
            ("room", (400, "M_INVALID_PARAM")),
            ("!a\0b:asked.test", (400, "M_INVALID_PARAM")),
            ("!none:asked.test", (404, "M_NOT_FOUND")),
            (closed, (404, "M_NOT_FOUND")),
        ):
            assert await pair.refusal(pair.get(PATH, roomId=room_id)) == refusal
        strange = pair.get(PATH, roomId=closed, query=(("suggested_only", "yes"),))
        assert await pair.refusal(strange) == (400, "M_INVALID_PARAM")
