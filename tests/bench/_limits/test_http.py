import json

import pytest

from bench._limits.http import BODY, SECTION, get, put, remarks, servers


def test_the_body_has_220_bytes() -> None:
    """And is JSON."""
    assert len(BODY) == 220
    assert set(json.loads(BODY)) == {"edus", "origin", "pdus", "padding"}


def test_the_requests_are_small() -> None:
    """HTTP is all that they cost."""
    assert get(1).bytes.startswith(b"GET /version HTTP/1.1\r\n")
    assert put(1).bytes.startswith(b"PUT /send/1 HTTP/1.1\r\n")
    assert put(1).bytes.endswith(b"\r\n\r\n" + BODY)


async def test_every_side_measures() -> None:
    """On either loop and over TLS, from a load generator of its own."""
    async with servers() as subject:
        assert len({subject.uvloop, subject.asyncio, subject.tls}) == 3
        for side in {side.sample: side for row in SECTION.rows for side in row.sides}.values():
            measured = side.sample(subject, 0.01)
            assert not hasattr(measured, "value"), "HTTP is measured asynchronously"
            assert (await measured).operations >= 32
        assert remarks(subject)[0].startswith("HTTP: one process serves")


@pytest.mark.parametrize(("name", "counts"), [("http-get", True), ("http-put", True), ("http-tls", False)])
def test_tls_is_information(name: str, counts: bool) -> None:
    """Between nodes it is not a choice."""
    assert {row.name: row.counts for row in SECTION.rows}[name] is counts
