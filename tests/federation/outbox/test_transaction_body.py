"""The id and the body of a transaction, and what its answer says."""

import pytest

from federation.matrix.canonical_json import decode, encode
from federation.outbox.transaction_body import body, id_of, objections, target

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


def test_its_target_is_written_like_every_other() -> None:
    """Nothing in the id steers where it goes."""
    assert target("a/b").uri == "/_matrix/federation/v1/send/a%2Fb"


def test_an_id_stands_for_the_rows_of_one_database() -> None:
    """Another epoch, other positions, other events, other content: another id."""
    pdus, edus = [(1, "$a"), (2, "$b")], [(3, "m.direct_to_device", b"{}")]
    made = id_of("epoch", pdus, edus)
    assert made == id_of("epoch", pdus, edus)
    others = [
        id_of("other", pdus, edus),
        id_of("epoch", [(1, "$a"), (2, "$c")], edus),
        id_of("epoch", [(1, "$a"), (4, "$b")], edus),
        id_of("epoch", pdus[:1], edus),
        id_of("epoch", pdus, []),
        id_of("epoch", pdus, [(3, "m.direct_to_device", b"[]")]),
        id_of("epoch", pdus, [(3, "m.device_list_update", b"{}")]),
    ]
    assert len({made, *others}) == 8
    assert made.isalnum()
