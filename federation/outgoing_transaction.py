"""The body of `PUT /send/{txnId}`. Server-server API, "Transactions"."""

from collections.abc import Mapping, Sequence
from typing import Any

from federation.canonical_json import encode

PROCESSED = "io.palaver.processed"
"""In the answer to a transaction: its events are in their rooms. Others answer when they lie in a queue."""


def body(
    origin: str, origin_server_ts: int, pdus: Sequence[bytes], edus: Sequence[Mapping[str, Any]]
) -> bytes:
    """Canonical JSON, put together from events that have been written so before: that is most of it."""
    members = []
    if edus:
        members.append(b'"edus":' + encode([dict(edu) for edu in edus]))
    members.append(b'"origin":' + encode(origin))
    members.append(b'"origin_server_ts":' + encode(origin_server_ts))
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
