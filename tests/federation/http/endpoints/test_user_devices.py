"""`GET /_matrix/federation/v1/user/devices/{userId}`."""

from tests.federation.http.key_nodes import key_pair
from tests.federation.http.membership_pair import V1
from tests.support.postgres import Server

PATH = f"{V1}/user/devices/{{userId}}"


async def test_an_agent_has_no_devices(postgres_server: Server, migrated_template: str) -> None:
    """An error would make the server look unreachable."""
    async with key_pair(postgres_server, migrated_template) as pair:
        answer = await pair.get(PATH, userId=pair.alice)
        assert answer == {"user_id": pair.alice, "stream_id": 0, "devices": []}


async def test_unknown_and_remote_users_are_refused(postgres_server: Server, migrated_template: str) -> None:
    """404 for unknown users, 400 for remote users and invalid ids."""
    async with key_pair(postgres_server, migrated_template) as pair:
        nobody = pair.get(PATH, userId=pair.asked.user("nobody"))
        assert await pair.refusal(nobody) == (404, "M_NOT_FOUND")
        for user in (pair.bob, "nonsense", "@\0:asked.test", "@" + "x" * 300 + ":asked.test"):
            assert await pair.refusal(pair.get(PATH, userId=user)) == (400, "M_INVALID_PARAM")
