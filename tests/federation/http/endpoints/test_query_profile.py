"""`GET /_matrix/federation/v1/query/profile`."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.query_pair import query_pair
from tests.support.postgres import Server

PATH = f"{V1}/query/profile"


async def test_a_profile_is_given(postgres_server: Server, migrated_template: str) -> None:
    """All of it, or one field."""
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


async def test_what_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """A user that is none, whom there is not, or who lives elsewhere."""
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
