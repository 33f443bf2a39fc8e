"""`POST /_matrix/federation/v1/user/keys/claim`."""

from tests.federation.http.key_nodes import key_pair
from tests.federation.http.membership_pair import V1
from tests.support.postgres import Server

PATH = f"{V1}/user/keys/claim"


async def test_agents_have_no_one_time_keys(postgres_server: Server, migrated_template: str) -> None:
    """This is not an error."""
    async with key_pair(postgres_server, migrated_template) as pair:
        body = {"one_time_keys": {pair.alice: {"ABC": "signed_curve25519"}}}
        assert await pair.post(PATH, body) == {"one_time_keys": {}}


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Remote users, and invalid claims."""
    async with key_pair(postgres_server, migrated_template) as pair:
        theirs = pair.post(PATH, {"one_time_keys": {pair.bob: {}}})
        assert await pair.refusal(theirs) == (400, "M_INVALID_PARAM")
        for body in ({}, {"one_time_keys": []}, {"one_time_keys": {pair.alice: []}}):
            assert await pair.refusal(pair.post(PATH, body)) == (400, "M_BAD_JSON")
