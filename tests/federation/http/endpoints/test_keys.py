"""`GET /_matrix/key/v2/server`."""

import pytest

from tests.federation.http.running import KEYS, running


@pytest.mark.parametrize(
    "path",
    [
        "/_matrix/key/v2/server",
        "/_matrix/key/v2/server/",
        "/_matrix/key/v2/server/ed25519:auto",
        "/_matrix/key/v2/server/ed25519%3Aauto",
        "/_matrix/key/v2/server/%7Bx%7D",
    ],
)
async def test_the_keys_are_returned_unchanged(path: str) -> None:
    """The signed document is sent byte for byte; a key id in the path is ignored."""
    async with running() as node, await node.connect() as client:
        answer = await client.ask(path)
        assert (answer.status, answer.body) == (200, KEYS)
        assert answer.json == {"server_name": "kitchen.local"}


async def test_two_segments_are_not_a_key_id() -> None:
    """The path has at most one."""
    async with running() as node, await node.connect() as client:
        assert (await client.ask("/_matrix/key/v2/server/a/b")).status == 404
