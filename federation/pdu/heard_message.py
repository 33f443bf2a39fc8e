"""Reading one message of another server after another, while its sender, its type and the room's state stay
the same: as `message.py` builds them, what is hashed, signed and kept is put together of pieces."""

import hashlib
from collections.abc import Mapping
from typing import Any

from federation.canonical_json import NotCanonical, encode, encode_again
from federation.identifiers import domain, is_event_id
from federation.pdu import limits
from federation.pdu.hashes import event_id_of
from federation.pdu.message import LATEST, PARTS, Frame
from federation.pdu.pdu import Pdu
from federation.signatures import encode_base64


def heard_message(frame: Frame, event: Mapping[str, Any]) -> tuple[Pdu, bytes] | None:
    """As `read` reads it, with what its signatures are of, if its content is the one that was hashed. None:
    it is no such message, or there is more to it, and `read` shows what it is."""
    if (
        event.keys() != PARTS
        or event["sender"] != frame.sender
        or event["type"] != frame.type
        or event["room_id"] != frame.room_id
        or event["auth_events"] != list(frame.auth_events)
    ):
        return None
    content, depth, ts, prev = (
        event["content"],
        event["depth"],
        event["origin_server_ts"],
        event["prev_events"],
    )
    if (
        type(content) is not dict
        or type(depth) is not int
        or type(ts) is not int
        or type(prev) is not list
        or not 0 <= depth <= limits.MAX_DEPTH
        or not 0 <= ts <= LATEST
        or not _is_one_event_id(prev)
        or not _is_one_signature(event["signatures"], domain(frame.sender))
    ):
        return None
    try:
        said = encode(content, max_depth=limits.MAX_NESTING - 1)
    except NotCanonical:
        return None
    before, end = frame.before, frame.end
    place = b',"depth":%d' % depth
    after = b',"origin_server_ts":%d,"prev_events":%b%b' % (ts, encode_again(prev), frame.names)
    content_hash = encode_base64(hashlib.sha256(before + said + place + after + end).digest())
    if event["hashes"] != {"sha256": content_hash}:
        return None
    place += b',"hashes":{"sha256":"%b"}' % content_hash.encode()
    signed = before + b"{}" + place + after + end
    canonical = before + said + place + after + b',"signatures":' + encode_again(event["signatures"]) + end
    if len(canonical) > limits.MAX_PDU_BYTES:
        return None
    pdu = Pdu(
        event_id_of(signed, frame.version),
        frame.room_id,
        frame.type,
        None,
        frame.sender,
        content,
        ts,
        depth,
        tuple(prev),
        frame.auth_events,
        event,
        canonical,
    )
    return pdu, signed


def _is_one_event_id(values: list[Any]) -> bool:
    return len(values) == 1 and type(values[0]) is str and is_event_id(values[0])


def _is_one_signature(signatures: Any, server: str | None) -> bool:
    """By one key of the server, and of nobody else."""
    if type(signatures) is not dict or len(signatures) != 1 or server not in signatures:
        return False
    made = signatures[server]
    if type(made) is not dict or len(made) != 1:
        return False
    (text,) = made.values()
    return type(text) is str
