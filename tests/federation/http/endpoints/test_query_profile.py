"""`GET /_matrix/federation/v1/query/profile`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.query_pair import query_pair
from tests.support.postgres import Server

PATH = f"{V1}/query/profile"


async def test_a_profile_is_returned(postgres_server: Server, migrated_template: str) -> None:
    """The whole profile or one field."""
    async with query_pair(postgres_server, migrated_template) as pair:
        await pair.queries.profiles.ensure_user(pair.alice)
        assert await pair.get(PATH, query=(("user_id", pair.alice),)) == {}
        profile = {"displayname": "Älice", "avatar_url": "mxc://a/b", "m.tz": {"zone": "UTC"}}
        await pair.queries.profiles.set_profile(pair.alice, **profile)
        assert await pair.get(PATH, query=(("user_id", pair.alice),)) == profile
        for field, expected in (
            ("displayname", {"displayname": "Älice"}),
            ("m.tz", {"m.tz": {"zone": "UTC"}}),
            ("none", {}),
            ("\0", {}),
        ):
            query = (("user_id", pair.alice), ("field", field))
            assert await pair.get(PATH, query=query) == expected


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Invalid, unknown and remote users."""
    async with query_pair(postgres_server, migrated_template) as pair:
        assert await pair.refusal(pair.get(PATH)) == (400, "M_MISSING_PARAM")
        for user, refusal in (
            ("alice", (400, "M_INVALID_PARAM")),
            ("@a\0b:asked.test", (400, "M_INVALID_PARAM")),
            ("@" + "x" * 300 + ":asked.test", (400, "M_INVALID_PARAM")),
            (pair.asked.user("nobody"), (404, "M_NOT_FOUND")),
            (pair.bob, (404, "M_NOT_FOUND")),
            ("@eve:other.test", (404, "M_NOT_FOUND")),
        ):
            assert await pair.refusal(pair.get(PATH, query=(("user_id", user),))) == refusal
