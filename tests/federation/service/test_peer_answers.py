"""The bodies of answers."""

import pytest

from federation.peer_errors import PeerMalformed
from federation.service.peer_answers import is_object, read_json, too_large


async def test_json_is_read() -> None:
    """Much of it too, and without keeping anybody else waiting."""
    assert await read_json("a.test", b'{"a":1}') == {"a": 1}
    long = "x" * 300_000
    assert await read_json("a.test", f'"{long}"'.encode()) == long


@pytest.mark.parametrize("body", [b"", b"{", b"<html>", b'"\xff"', b"[" * 2_000 + b"]" * 2_000])
async def test_what_is_no_json_is_the_peers_fault(body: bytes) -> None:
    """And is said of it in words."""
    with pytest.raises(PeerMalformed, match="not JSON"):
        await read_json("a.test", body)


def test_an_answer_is_an_object() -> None:
    """All of federation's are."""
    assert is_object("a.test", {}) == {}
    with pytest.raises(PeerMalformed, match="not a JSON object"):
        is_object("a.test", [])


def test_too_much_is_said_with_its_measure() -> None:
    """For whoever looks for what went wrong."""
    assert "100 bytes" in too_large("a.test", 100).problem
