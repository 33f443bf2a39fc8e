"""Labels of the listener's metrics."""

import pytest

from federation.http.server.observer import METHODS, OTHER_METHOD
from tests.federation.http.running import running


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_known_methods_are_labels(method: str) -> None:
    """The common ones."""
    async with running() as node, await node.connect() as client:
        await client.ask(method=method)
        assert [label for _, label, _ in node.seen.answered] == [method]


@pytest.mark.parametrize("method", ["PROPFIND", "TRACE", "BREW", "get"])
async def test_a_peer_cannot_invent_labels(method: str) -> None:
    """Each label uses memory for ever, so there is a fixed set."""
    async with running() as node, await node.connect() as client:
        await client.ask("/" + method, method=method)
        ((route, label, _),) = node.seen.answered
        assert label == OTHER_METHOD
        assert route in ("unmatched", "unreadable")
