"""What the endpoints of questions begin with."""

from federation.http.services import V1
from tests.federation.http.query_pair import query_pair
from tests.support.postgres import Server


async def test_nobody_asks_without_a_signature(postgres_server: Server, migrated_template: str) -> None:
    """Each of the endpoints says so before it looks at anything else."""
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
