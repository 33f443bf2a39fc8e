"""Unmatched requests to the homeserver's port, and its limits."""

from dataclasses import replace

import pytest

from appservice.http.app import EVERYWHERE, LIMITS
from federation.matrix.networks import is_within, read_address
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.events import message, transaction
from tests.appservice.http.port import TOKEN, Port, port_of
from tests.appservice.intakes import intake_on


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/_matrix/app/v1/nothing", 404),
        ("PUT", "/_matrix/app/v1/transactions/", 404),
        ("PUT", "/_matrix/app/v1/transactions/a/b", 404),
        ("GET", "/_matrix/key/v2/server", 404),
        ("GET", "/_matrix/app/v1/transactions/1", 405),
        ("POST", "/transactions/1", 405),
        ("GET", "/_matrix/app/v1/ping", 405),
        ("PUT", "/_matrix/app/v1/users/@a:b", 405),
    ],
)
async def test_unmatched_requests(port: Port, method: str, path: str, status: int) -> None:
    """404 for a path, 405 for a method, both with `M_UNRECOGNIZED`."""
    answer = await port.ask(method, path)
    assert (answer.status, answer.json["errcode"]) == (status, "M_UNRECOGNIZED")


async def test_too_large_body_is_refused(database: Database, database_address: DatabaseAddress) -> None:
    """413, and nothing is received; a body within the limit is received, also chunked."""
    body = transaction(message("$1"))
    async with (
        intake_on(database, database_address) as harness,
        port_of(harness, replace(LIMITS, max_body=len(body))) as port,
    ):
        refused = await port.ask("PUT", "/_matrix/app/v1/transactions/1", body + b" ")
        assert (refused.status, refused.json["errcode"]) == (413, "M_TOO_LARGE")
        assert await harness.all() == []
        async with await port.connect() as client:
            head = f"PUT /transactions/1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n"
            chunks = f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
            await client.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks)
            assert (await client.answer()).status == 200
        assert await harness.all() == ["$1"]


def test_plain_http_from_any_address() -> None:
    """The bind address decides which hosts can connect."""
    for address in ("127.0.0.1", "172.17.0.2", "::1", "fd00::1"):
        assert is_within(read_address(address), EVERYWHERE)


def test_full_transaction_is_within_the_limit() -> None:
    """A hundred events, EDUs and to-device messages of 64 KiB each, and four such transactions at once."""
    assert LIMITS.max_body >= 300 * 65_536
    assert LIMITS.max_bodies >= 4 * LIMITS.max_body
