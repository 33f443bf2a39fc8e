"""The body of `PUT /_matrix/federation/v1/send/{txnId}`. Server-server API, "Transactions"."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from federation.events import EventId
from federation.events.received import Accepted, Receipt, SoftFailed

MAX_PDUS: Final = 50
MAX_EDUS: Final = 100
"""The specification: "A list of persistent updates to rooms. MUST NOT include more than 50 PDUs", "a list of
ephemeral messages. May be omitted if there are no ephemeral messages to be sent. MUST NOT include more than
100 EDUs.\""""
PROCESSED: Final = "io.palaver.processed"
"""In the answer to a transaction: its events are in their rooms. Others answer when they lie in a queue."""


@dataclass(frozen=True, slots=True)
class Transaction:
    pdus: tuple[Any, ...] = field(repr=False)
    edus: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class NotATransaction:
    """Why the body is none. `errcode` is Matrix's."""

    errcode: str
    problem: str


def read(body: object) -> Transaction | NotATransaction:
    """Its form; the events in it are looked at one by one afterwards. `origin` in the body is not believed:
    who sent it is who signed the request."""
    if not isinstance(body, dict):
        return NotATransaction("M_BAD_JSON", "A transaction is an object.")
    pdus, edus = body.get("pdus", []), body.get("edus", [])
    if not isinstance(pdus, list) or not isinstance(edus, list):
        return NotATransaction("M_BAD_JSON", "pdus and edus are lists.")
    if len(pdus) > MAX_PDUS:
        return NotATransaction("M_TOO_LARGE", f"A transaction has at most {MAX_PDUS} PDUs.")
    if len(edus) > MAX_EDUS:
        return NotATransaction("M_TOO_LARGE", f"A transaction has at most {MAX_EDUS} EDUs.")
    return Transaction(tuple(pdus), tuple(edus))


def answer(results: Mapping[EventId, Receipt]) -> bytes:
    """What became of each PDU: "The value is an error message if the PDU failed". An event that failed softly
    was taken in, and the sender need not know more. What else is in an answer is read by nobody, but for
    another Palaver: it need not wait for what is answered here to be worked off."""
    return orjson.dumps(
        {
            PROCESSED: True,
            "pdus": {
                event_id: {} if isinstance(receipt, Accepted | SoftFailed) else {"error": str(receipt)}
                for event_id, receipt in results.items()
            },
        }
    )
