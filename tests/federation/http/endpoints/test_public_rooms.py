"""`GET` and `POST /_matrix/federation/v1/publicRooms`."""

from typing import Any

from tests.federation.http.membership_pair import V1
from tests.federation.http.query_pair import QueryPair, furnish, query_pair
from tests.support.postgres import Server

PATH = f"{V1}/publicRooms"


async def published(pair: QueryPair, name: str, join_rule: str = "public") -> str:
    room_id = await pair.asked.create("12", pair.alice, join_rule)
    await furnish(pair.asked, room_id, pair.alice, name={"name": name})
    await pair.queries.directory.publish(room_id, True)
    return room_id


def names(answer: Any) -> set[str]:
    return {entry["name"] for entry in answer["chunk"]}


async def test_published_rooms_are_listed(postgres_server: Server, migrated_template: str) -> None:
    """In pages, and with a search."""
    async with query_pair(postgres_server, migrated_template) as pair:
        for name in ("Kitchen", "Cellar", "Soup Kitchen"):
            await published(pair, name)
        await pair.asked.create("12", pair.alice)
        answer = await pair.get(PATH)
        assert names(answer) == {"Kitchen", "Cellar", "Soup Kitchen"}
        assert answer["total_room_count_estimate"] == 3
        first = await pair.get(PATH, query=(("limit", "2"),))
        second = await pair.get(PATH, query=(("limit", "2"), ("since", first["next_batch"])))
        assert len(first["chunk"]) == 2
        assert names(first) | names(second) == {"Kitchen", "Cellar", "Soup Kitchen"}
        found = await pair.post(PATH, {"filter": {"generic_search_term": "kitchen"}})
        assert names(found) == {"Kitchen", "Soup Kitchen"}
        assert await pair.post(PATH, {"filter": {"room_types": ["m.space"]}}) == {
            "chunk": [],
            "total_room_count_estimate": 0,
        }


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Invalid numbers, tokens and filters, and a missing body."""
    async with query_pair(postgres_server, migrated_template) as pair:
        for query in ((("limit", "x"),), (("limit", "-1"),), (("since", "x"),)):
            assert await pair.refusal(pair.get(PATH, query=query)) == (400, "M_INVALID_PARAM")
        for body, errcode in (
            ({"limit": "5"}, "M_BAD_JSON"),
            ({"filter": 5}, "M_BAD_JSON"),
            ({"since": "x"}, "M_INVALID_PARAM"),
        ):
            assert await pair.refusal(pair.post(PATH, body)) == (400, errcode)


async def test_the_directory_can_be_closed_to_other_servers(postgres_server: Server, migrated_template: str) -> None:
    """By a setting."""
    async with query_pair(postgres_server, migrated_template, listed=False) as pair:
        await published(pair, "Kitchen")
        assert await pair.refusal(pair.get(PATH)) == (403, "M_FORBIDDEN")
        assert await pair.refusal(pair.post(PATH, {})) == (403, "M_FORBIDDEN")
