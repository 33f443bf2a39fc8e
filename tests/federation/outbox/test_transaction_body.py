"""The id and the body of a transaction, and its response."""

import pytest

from federation.matrix.canonical_json import decode, encode
from federation.outbox.transaction_body import encode_body, pdu_errors, send_target, transaction_id_of

EVENTS = [encode({"type": "m.room.message", "content": {"body": "é"}}), encode({"type": "b"})]


@pytest.mark.parametrize("edus", [[], [{"edu_type": "m.typing", "content": {"typing": True}}]])
@pytest.mark.parametrize("pdus", [[], EVENTS[:1], EVENTS])
def test_the_body_is_canonical_json(pdus: list[bytes], edus: list[dict[str, object]]) -> None:
    """The request's signature covers it, and the peer encodes what it parsed again: both must have the
    same bytes."""
    made = encode_body("a.example", 5, pdus, edus)
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
def test_errors_of_refused_events(answer: dict[str, object], expected: dict[str, str]) -> None:
    """Only well-formed errors count."""
    assert pdu_errors(answer) == expected


def test_the_transaction_id_is_escaped_in_the_path() -> None:
    """It cannot change the path of the request."""
    assert send_target("a/b").uri == "/_matrix/federation/v1/send/a%2Fb"


def test_the_id_depends_on_database_and_rows() -> None:
    """Another epoch, position, event or content gives another id."""
    pdus, edus = [(1, "$a"), (2, "$b")], [(3, "m.direct_to_device", b"{}")]
    made = transaction_id_of("epoch", pdus, edus)
    assert made == transaction_id_of("epoch", pdus, edus)
    others = [
        transaction_id_of("other", pdus, edus),
        transaction_id_of("epoch", [(1, "$a"), (2, "$c")], edus),
        transaction_id_of("epoch", [(1, "$a"), (4, "$b")], edus),
        transaction_id_of("epoch", pdus[:1], edus),
        transaction_id_of("epoch", pdus, []),
        transaction_id_of("epoch", pdus, [(3, "m.direct_to_device", b"[]")]),
        transaction_id_of("epoch", pdus, [(3, "m.device_list_update", b"{}")]),
    ]
    assert len({made, *others}) == 8
    assert made.isalnum()
