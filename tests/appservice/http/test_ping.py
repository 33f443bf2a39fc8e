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
async def test_ping_is_reported(port: Port, body: Any, heard: str | None) -> None:
    """With the transaction id, if there is one."""
    answer = await port.ask("POST", PATH, body)
    assert (answer.status, answer.json) == (200, {})
    assert port.pings == [heard]


@pytest.mark.parametrize(("body", "errcode"), [(b"{", "M_NOT_JSON"), (b"[]", "M_BAD_JSON")])
async def test_invalid_ping_is_refused(port: Port, body: bytes, errcode: str) -> None:
    """And not reported."""
    refused = await port.ask("POST", PATH, body)
    assert (refused.status, refused.json["errcode"]) == (400, errcode)
    assert port.pings == []
