"""`POST /_matrix/federation/v1/user/keys/query`."""

from tests.federation.http.key_nodes import key_pair
from tests.federation.http.membership_pair import V1
from tests.support.postgres import Server

PATH = f"{V1}/user/keys/query"


async def test_agents_have_no_keys(postgres_server: Server, migrated_template: str) -> None:
    """Each that is asked for is named."""
    async with key_pair(postgres_server, migrated_template) as pair:
        nobody = pair.asked.user("nobody")
        answer = await pair.post(PATH, {"device_keys": {pair.alice: [], nobody: ["ABC"]}})
        assert answer == {"device_keys": {pair.alice: {}, nobody: {}}}


async def test_what_is_refused(postgres_server: Server, migrated_template: str) -> None:
    """Users of others, and what is no question."""
    async with key_pair(postgres_server, migrated_template) as pair:
        theirs = pair.post(PATH, {"device_keys": {pair.bob: []}})
        assert await pair.refusal(theirs) == (400, "M_INVALID_PARAM")
        for body in ({}, {"device_keys": []}, {"device_keys": {pair.alice: {}}}):
            assert await pair.refusal(pair.post(PATH, body)) == (400, "M_BAD_JSON")
