"""Authentication of room endpoints."""

from tests.federation.http.membership_pair import V1
from tests.federation.http.room_pair import room_pair
from tests.support.postgres import Server


async def test_requests_are_authenticated_first(postgres_server: Server, migrated_template: str) -> None:
    """Only an authenticated server is told that a room is unknown."""
    async with room_pair(postgres_server, migrated_template) as pair:
        path = f"{V1}/event_auth/{{roomId}}/{{eventId}}"
        asked = pair.get(path, roomId="!none:asked.test", eventId="$x")
        assert await pair.refusal(asked) == (403, "M_FORBIDDEN")
        assert await pair.unsigned("GET", f"{V1}/event_auth/!none:asked.test/$x") == (401, "M_UNAUTHORIZED")
