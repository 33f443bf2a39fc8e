"""Builds the id and the body of `PUT /send/{txnId}`, and reads its response. Server-server API,
"Transactions"."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from federation.client.requests import SEND, RequestTarget, request_target
from federation.matrix.canonical_json import encode, encode_checked


def send_target(transaction_id: str) -> RequestTarget:
    """Return the path of the request."""
    return request_target(SEND, txnId=transaction_id)


def transaction_id_of(epoch: str, pdus: Iterable[tuple[int, str]], edus: Iterable[tuple[int, str, bytes]]) -> str:
    """Derive a transaction id from rows of the queues: (position, event id) and (position, type, content).

    The same rows of the same database give the same id, so that a server recognises a transaction that a
    killed process had sent. Other rows give another id, even if positions are used again."""
    rows = hashlib.sha256(epoch.encode())
    for position, event_id in pdus:
        rows.update(b"\npdu %d %b" % (position, event_id.encode()))
    for position, edu_type, content in edus:
        digest = hashlib.sha256(content).hexdigest()
        rows.update(b"\nedu %d %b %b" % (position, digest.encode(), edu_type.encode()))
    return rows.hexdigest()[:32]


def encode_body(origin: str, origin_server_ts: int, pdus: Sequence[bytes], edus: Sequence[Mapping[str, Any]]) -> bytes:
    """Return canonical JSON, joined from events that are already encoded, which are most of it."""
    members = []
    if edus:
        members.append(b'"edus":' + encode([dict(edu) for edu in edus]))
    members.append(b'"origin":' + encode_checked(origin))
    members.append(b'"origin_server_ts":%d' % origin_server_ts)
    members.append(b'"pdus":[' + b",".join(pdus) + b"]")
    return b"{" + b",".join(members) + b"}"


def pdu_errors(response: Mapping[str, Any]) -> dict[str, str]:
    """Return the error of each event that the peer refused, by event id. The peer has the transaction
    nevertheless."""
    pdus = response.get("pdus")
    return {
        event_id: error
        for event_id, result in (pdus.items() if isinstance(pdus, dict) else ())
        if isinstance(result, dict) and isinstance(error := result.get("error"), str)
    }
