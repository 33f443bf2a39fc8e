"""Authentication of query endpoints."""

from federation.http.services import V1
from tests.federation.http.query_pair import query_pair
from tests.support.postgres import Server


async def test_requests_are_authenticated_first(postgres_server: Server, migrated_template: str) -> None:
    """By all these endpoints."""
    async with query_pair(postgres_server, migrated_template) as pair:
        for method, path in (
            ("GET", f"{V1}/query/directory"),
            ("GET", f"{V1}/query/profile"),
            ("GET", f"{V1}/publicRooms"),
            ("POST", f"{V1}/publicRooms"),
            ("GET", f"{V1}/hierarchy/room"),
            ("GET", "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/room"),
        ):
            assert await pair.unsigned(method, path) == (401, "M_UNAUTHORIZED")
