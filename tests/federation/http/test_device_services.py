"""Authentication of device endpoints."""

from tests.federation.http.key_nodes import key_pair
from tests.federation.http.membership_pair import V1
from tests.support.postgres import Server


async def test_requests_are_authenticated_first(postgres_server: Server, migrated_template: str) -> None:
    """Unsigned requests do not reveal which users exist."""
    async with key_pair(postgres_server, migrated_template) as pair:
        for user in (pair.alice, pair.asked.user("nobody"), "nonsense"):
            assert await pair.unsigned("GET", f"{V1}/user/devices/{user}") == (401, "M_UNAUTHORIZED")
        for name in ("query", "claim"):
            assert await pair.unsigned("POST", f"{V1}/user/keys/{name}") == (401, "M_UNAUTHORIZED")
