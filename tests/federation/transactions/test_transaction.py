"""The form of a transaction and of its response."""

import json

import pytest

from federation.events.received import ACCEPTED, Dropped, Rejected, SoftFailed
from federation.transactions.transaction import (
    MAX_EDUS,
    MAX_PDUS,
    InvalidTransaction,
    Transaction,
    encode_results,
    parse_transaction,
)


def test_pdus_and_edus_are_optional_lists() -> None:
    """Their items are not checked here."""
    assert parse_transaction({"origin": "liar.example", "pdus": [1], "edus": ["x"]}) == Transaction((1,), ("x",))
    assert parse_transaction({}) == Transaction((), ())


@pytest.mark.parametrize(
    ("body", "errcode"),
    [
        ([], "M_BAD_JSON"),
        ({"pdus": {}}, "M_BAD_JSON"),
        ({"edus": None}, "M_BAD_JSON"),
        ({"pdus": [{}] * (MAX_PDUS + 1)}, "M_TOO_LARGE"),
        ({"edus": [{}] * (MAX_EDUS + 1)}, "M_TOO_LARGE"),
    ],
)
def test_an_invalid_transaction_is_refused(body: object, errcode: str) -> None:
    """The error has Matrix's error code."""
    refused = parse_transaction(body)
    assert isinstance(refused, InvalidTransaction)
    assert refused.errcode == errcode


def test_limits_are_inclusive() -> None:
    """50 PDUs and 100 EDUs are allowed."""
    assert isinstance(parse_transaction({"pdus": [{}] * 50, "edus": [{}] * 100}), Transaction)


def test_the_response_has_an_error_for_each_refused_event() -> None:
    """The error has the number of the violated rule. A soft-failed event counts as accepted."""
    results = {
        "$a": ACCEPTED,
        "$b": SoftFailed("6", "no"),
        "$c": Rejected("5.3.7", "Otherwise, reject."),
        "$d": Dropped("step 1"),
    }
    assert json.loads(encode_results(results)) == {
        "io.palaver.processed": True,
        "pdus": {"$a": {}, "$b": {}, "$c": {"error": "rule 5.3.7: Otherwise, reject."}, "$d": {"error": "step 1"}},
    }
