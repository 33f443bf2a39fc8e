"""The body of a transaction, and what its answer says."""

import pytest

from federation.canonical_json import decode, encode
from federation.outgoing_transaction import SEND, body, objections, target
from federation.request_target import request_target

EVENTS = [encode({"type": "m.room.message", "content": {"body": "é"}}), encode({"type": "b"})]


@pytest.mark.parametrize("edus", [[], [{"edu_type": "m.typing", "content": {"typing": True}}]])
@pytest.mark.parametrize("pdus", [[], EVENTS[:1], EVENTS])
def test_it_is_canonical_however_it_was_put_together(
    pdus: list[bytes], edus: list[dict[str, object]]
) -> None:
    """It is signed as it stands, and the peer signs what it reads anew: the two must be the same bytes."""
    made = body("a.example", 5, pdus, edus)
    read = decode(made)
    assert encode(read) == made
    assert read["origin"] == "a.example"
    assert read["origin_server_ts"] == 5
    assert read["pdus"] == [decode(pdu) for pdu in pdus]
    assert read.get("edus", []) == edus


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"pdus": {"$a": {}, "$b": {"error": "No."}}}, {"$b": "No."}),
        ({"pdus": {"$a": {"error": 1}, "$b": "No."}}, {}),
        ({"pdus": []}, {}),
        ({}, {}),
    ],
)
def test_what_the_peer_would_not_take(answer: dict[str, object], expected: dict[str, str]) -> None:
    """Only what it says in the form it should counts."""
    assert objections(answer) == expected


@pytest.mark.parametrize(
    "transaction_id", ["1700000000000-00ffab", "a", "-", "a/b", "ä", "%2F", "a b", "a?b", "²"]
)
def test_its_target_is_that_of_every_request(transaction_id: str) -> None:
    """However the id is written."""
    assert target(transaction_id) == request_target(SEND, txnId=transaction_id)
