"""The id and the body of `PUT /send/{txnId}`. Server-server API, "Transactions"."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from federation.client.requests import SEND, RequestTarget, request_target
from federation.matrix.canonical_json import encode, encode_again


def target(transaction_id: str) -> RequestTarget:
    """Where it is put."""
    return request_target(SEND, txnId=transaction_id)


def id_of(epoch: str, pdus: Iterable[tuple[int, str]], edus: Iterable[tuple[int, str, bytes]]) -> str:
    """The id of a transaction with these rows of the queues: position and event id, or position, type and
    content. The same rows of the same database make the same id, so that a server recognises what a process
    that was killed had sent it; nothing else makes it, also where positions are given out twice."""
    rows = hashlib.sha256(epoch.encode())
    for position, event_id in pdus:
        rows.update(b"\npdu %d %b" % (position, event_id.encode()))
    for position, edu_type, content in edus:
        digest = hashlib.sha256(content).hexdigest()
        rows.update(b"\nedu %d %b %b" % (position, digest.encode(), edu_type.encode()))
    return rows.hexdigest()[:32]


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
