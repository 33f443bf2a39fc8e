"""`PUT /_matrix/app/v1/transactions/{txnId}`."""

from typing import Any

import pytest

from federation.transactions.edu_dispatcher import TypingUsers
from tests.appservice.events import ALICE, ROOM, message
from tests.appservice.http.port import Port

PATH = "/_matrix/app/v1/transactions"
TYPING = {"type": "m.typing", "room_id": ROOM, "content": {"user_ids": [ALICE]}}


@pytest.mark.parametrize("path", [PATH, "/transactions"])
async def test_transaction_is_committed_before_the_response(port: Port, path: str) -> None:
    """`{}`; a repetition gets the same response without a second effect."""
    body = {"events": [message("$1"), message("$2")], "ephemeral": [TYPING]}
    for _ in range(2):
        answer = await port.ask("PUT", f"{path}/a%20b", body)
        assert (answer.status, answer.json) == (200, {})
        assert await port.harness.all() == ["$1", "$2"]
    assert port.harness.told == [TypingUsers(ROOM, (ALICE,))]


async def test_legacy_path_shares_transaction_ids(port: Port) -> None:
    """A homeserver that falls back to the older path repeats the transaction there."""
    for path in (PATH, "/transactions"):
        assert (await port.ask("PUT", f"{path}/1", {"events": [message("$1")]})).status == 200
    assert await port.harness.all() == ["$1"]


@pytest.mark.parametrize(
    ("body", "errcode"),
    [
        (b"", "M_NOT_JSON"),
        (b"\xff", "M_NOT_JSON"),
        (b"[" * 100_000, "M_NOT_JSON"),
        (b"7", "M_BAD_JSON"),
        ({"events": 7}, "M_BAD_JSON"),
    ],
)
async def test_invalid_transaction_is_refused(port: Port, body: Any, errcode: str) -> None:
    """400, and its id remains unused."""
    refused = await port.ask("PUT", f"{PATH}/1", body)
    assert (refused.status, refused.json["errcode"]) == (400, errcode)
    assert (await port.ask("PUT", f"{PATH}/1", {"events": [message("$1")]})).status == 200
    assert await port.harness.all() == ["$1"]


@pytest.mark.parametrize("transaction_id", ["a" * 300, "%00", "a%00b"])
async def test_invalid_transaction_id_is_refused(port: Port, transaction_id: str) -> None:
    """400."""
    refused = await port.ask("PUT", f"{PATH}/{transaction_id}", {"events": []})
    assert (refused.status, refused.json["errcode"]) == (400, "M_INVALID_PARAM")


@pytest.mark.parametrize("transaction_id", ["%FF", "..%2F1", "%7B", "é".encode().hex(), "%C3%A9", "%2E%2E"])
async def test_unusual_transaction_ids_are_accepted(port: Port, transaction_id: str) -> None:
    """And received once."""
    for _ in range(2):
        assert (await port.ask("PUT", f"{PATH}/{transaction_id}", {"events": [message("$1")]})).status == 200
    assert await port.harness.all() == ["$1"]


async def test_large_transaction_is_parsed_in_a_thread(port: Port) -> None:
    """A hundred events of ten kilobytes."""
    events = [message(f"${number}", body="x" * 10_000) for number in range(100)]
    assert (await port.ask("PUT", f"{PATH}/1", {"events": events})).status == 200
    assert await port.harness.all() == [f"${number}" for number in range(100)]
