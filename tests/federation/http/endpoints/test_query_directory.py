"""`GET /_matrix/federation/v1/query/directory`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.query_pair import query_pair
from tests.support.postgres import Server

PATH = f"{V1}/query/directory"


async def test_an_alias_resolves_to_a_room(postgres_server: Server, migrated_template: str) -> None:
    """And to servers in it, this server first."""
    async with query_pair(postgres_server, migrated_template) as pair:
        room_id = await pair.asked.create("12", pair.alice)
        await pair.asking.membership.join(room_id, pair.bob, ["asked.test"])
        await pair.queries.directory.create("#küche:asked.test", room_id, pair.alice)
        answer = await pair.get(PATH, query=(("room_alias", "#küche:asked.test"),))
        assert answer == {"room_id": room_id, "servers": ["asked.test", "asking.test"]}


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Invalid, unknown and remote aliases."""
    async with query_pair(postgres_server, migrated_template) as pair:
        assert await pair.refusal(pair.get(PATH)) == (400, "M_MISSING_PARAM")
        for alias, refusal in (
            ("kitchen", (400, "M_INVALID_PARAM")),
            ("#a\0b:asked.test", (400, "M_INVALID_PARAM")),
            ("#" + "x" * 300 + ":asked.test", (400, "M_INVALID_PARAM")),
            ("#none:asked.test", (404, "M_NOT_FOUND")),
            ("#kitchen:other.test", (404, "M_NOT_FOUND")),
        ):
            assert await pair.refusal(pair.get(PATH, query=(("room_alias", alias),))) == refusal
