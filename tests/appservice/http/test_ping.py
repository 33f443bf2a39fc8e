"""`POST /_matrix/app/v1/ping`."""

from typing import Any

import pytest

from tests.appservice.http.port import Port

PATH = "/_matrix/app/v1/ping"


@pytest.mark.parametrize(
    ("body", "heard"),
    [
        ({"transaction_id": "meow"}, "meow"),
        ({}, None),
        (None, None),
        ({"transaction_id": 7}, None),
        ({"transaction_id": "x" * 300}, None),
    ],
)
async def test_a_ping_is_answered_and_told(port: Port, body: Any, heard: str | None) -> None:
    """With the id of whoever asked the homeserver for it, if it gave one."""
    answer = await port.ask("POST", PATH, body)
    assert (answer.status, answer.json) == (200, {})
    assert port.pings == [heard]


@pytest.mark.parametrize(("body", "errcode"), [(b"{", "M_NOT_JSON"), (b"[]", "M_BAD_JSON")])
async def test_what_is_no_ping_is_refused(port: Port, body: bytes, errcode: str) -> None:
    """And nobody is told."""
    refused = await port.ask("POST", PATH, body)
    assert (refused.status, refused.json["errcode"]) == (400, errcode)
    assert port.pings == []
