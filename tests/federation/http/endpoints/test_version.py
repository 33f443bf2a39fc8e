"""`GET /_matrix/federation/v1/version`."""

from tests.federation.http.running import running


async def test_the_version_is_returned() -> None:
    """Federation testers request it."""
    async with running() as node, await node.connect() as client:
        answer = await client.ask("/_matrix/federation/v1/version")
        assert (answer.status, answer.json) == (200, {"server": {"name": "Palaver", "version": "1.2.3"}})
        # There are no CORS headers: web pages do not use this API.
        assert not [name for name in answer.headers if name.startswith("access-control-")]
