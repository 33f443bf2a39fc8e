"""The body of `PUT /send/{txnId}`. Server-server API, "Transactions"."""

from collections.abc import Mapping, Sequence
from typing import Any

from federation.canonical_json import encode, encode_again
from federation.request_target import RequestTarget, request_target

SEND = "/_matrix/federation/v1/send/{txnId}"
_PATH = SEND.removesuffix("{txnId}")
PROCESSED = "io.palaver.processed"
"""In the answer to a transaction: its events are in their rooms. Others answer when they lie in a queue."""


def target(transaction_id: str) -> RequestTarget:
    """Where it is put."""
    if transaction_id.isascii() and transaction_id.replace("-", "").isalnum():
        # As ours are: nothing in it need be written in another way.
        return RequestTarget(SEND, _PATH + transaction_id)
    return request_target(SEND, txnId=transaction_id)


def body(
    origin: str, origin_server_ts: int, pdus: Sequence[bytes], edus: Sequence[Mapping[str, Any]]
) -> bytes:
    """Canonical JSON, put together from events that have been written so before: that is most of it."""
    members = []
    if edus:
        members.append(b'"edus":' + encode([dict(edu) for edu in edus]))
    members.append(b'"origin":' + encode_again(origin))
    members.append(b'"origin_server_ts":%d' % origin_server_ts)
    members.append(b'"pdus":[' + b",".join(pdus) + b"]")
    return b"{" + b",".join(members) + b"}"


def objections(answer: Mapping[str, Any]) -> dict[str, str]:
    """What the peer would not take, by event id, in its words. It has the transaction all the same."""
    pdus = answer.get("pdus")
    return {
        event_id: error
        for event_id, result in (pdus.items() if isinstance(pdus, dict) else ())
        if isinstance(result, dict) and isinstance(error := result.get("error"), str)
    }
