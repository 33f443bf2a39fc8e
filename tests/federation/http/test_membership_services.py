"""Authentication of membership endpoints."""

from tests.federation.http.membership_pair import V1, membership_pair
from tests.support.postgres import Server


async def test_requests_are_authenticated_first(postgres_server: Server, migrated_template: str) -> None:
    """An authenticated request is reported to the outbox."""
    async with membership_pair(postgres_server, migrated_template) as pair:
        path = f"{V1}/make_join/{{roomId}}/{{userId}}"
        asked = pair.get(path, roomId="!none:asked.test", userId=pair.bob)
        assert await pair.refusal(asked) == (404, "M_NOT_FOUND")
        assert await pair.unsigned("GET", f"{V1}/make_join/!none:asked.test/@b:asking.test") == (401, "M_UNAUTHORIZED")
