"""The body of `PUT /_matrix/federation/v1/send/{txnId}`. Server-server API, "Transactions"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from federation.events import EventId
from federation.events.received import Accepted, ReceiveResult, SoftFailed

MAX_PDUS: Final = 50
MAX_EDUS: Final = 100
"""The specification: "A list of persistent updates to rooms. MUST NOT include more than 50 PDUs", "a list of
ephemeral messages. May be omitted if there are no ephemeral messages to be sent. MUST NOT include more than
100 EDUs.\""""
PROCESSED: Final = "io.palaver.processed"
"""Marks a response: the events are in their rooms. Other homeservers respond when they have queued them."""


@dataclass(frozen=True, slots=True)
class Transaction:
    pdus: tuple[Any, ...] = field(repr=False)
    edus: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InvalidTransaction:
    """Why the request body is not a valid transaction. `errcode` is a Matrix error code."""

    errcode: str
    problem: str


def parse_transaction(body: object) -> Transaction | InvalidTransaction:
    """Check the form of the body, but not the events and EDUs in it. `origin` in the body is ignored: the
    sender is the server that signed the request."""
    if not isinstance(body, dict):
        return InvalidTransaction("M_BAD_JSON", "The transaction must be an object.")
    pdus, edus = body.get("pdus", []), body.get("edus", [])
    if not isinstance(pdus, list) or not isinstance(edus, list):
        return InvalidTransaction("M_BAD_JSON", "pdus and edus must be lists.")
    if len(pdus) > MAX_PDUS:
        return InvalidTransaction("M_TOO_LARGE", f"A transaction must not contain more than {MAX_PDUS} PDUs.")
    if len(edus) > MAX_EDUS:
        return InvalidTransaction("M_TOO_LARGE", f"A transaction must not contain more than {MAX_EDUS} EDUs.")
    return Transaction(tuple(pdus), tuple(edus))


def encode_results(results: Mapping[EventId, ReceiveResult]) -> bytes:
    """Return the response with a result for each PDU: "The value is an error message if the PDU failed".

    A soft-failed event was accepted, and its sender need not know more. `PROCESSED` is read by other Palaver
    nodes only: they need not pace their transactions to a server that responds after processing."""
    return orjson.dumps(
        {
            PROCESSED: True,
            "pdus": {
                event_id: {} if isinstance(receipt, Accepted | SoftFailed) else {"error": str(receipt)}
                for event_id, receipt in results.items()
            },
        }
    )
