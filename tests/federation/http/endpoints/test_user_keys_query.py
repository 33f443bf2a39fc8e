"""`POST /_matrix/federation/v1/user/keys/query`."""

from tests.federation.http.key_nodes import key_pair
from tests.federation.http.membership_pair import V1
from tests.support.postgres import Server

PATH = f"{V1}/user/keys/query"


async def test_agents_have_no_device_keys(postgres_server: Server, migrated_template: str) -> None:
    """Each requested user is in the response."""
    async with key_pair(postgres_server, migrated_template) as pair:
        nobody = pair.asked.user("nobody")
        answer = await pair.post(PATH, {"device_keys": {pair.alice: [], nobody: ["ABC"]}})
        assert answer == {"device_keys": {pair.alice: {}, nobody: {}}}


async def test_invalid_requests_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """Remote users, and invalid queries."""
    async with key_pair(postgres_server, migrated_template) as pair:
        theirs = pair.post(PATH, {"device_keys": {pair.bob: []}})
        assert await pair.refusal(theirs) == (400, "M_INVALID_PARAM")
        for body in ({}, {"device_keys": []}, {"device_keys": {pair.alice: {}}}):
            assert await pair.refusal(pair.post(PATH, body)) == (400, "M_BAD_JSON")
