"""Building one message of ours after another, while its sender, its type and the room's state stay the same.

`build` is right for every event, and writes it canonically again and again: to look at it, for its hash, for
its signature, to send it, for its id. Of a message only what it says, its time and its place are new, and
redacted it says nothing, so that all of these can be put together of the same pieces.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.canonical_json import NotCanonical, encode, encode_again
from federation.pdu import limits
from federation.pdu.builder import Signer
from federation.pdu.hashes import event_id_of
from federation.pdu.pdu import EventId, Pdu
from federation.room_version import RoomVersion
from federation.signatures import encode_base64, signature

PARTS: Final = frozenset(
    {
        "auth_events",
        "content",
        "depth",
        "hashes",
        "origin_server_ts",
        "prev_events",
        "room_id",
        "sender",
        "signatures",
        "type",
    }
)
LATEST: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Frame:
    """What messages have in common, as it is written: in front of the content, and behind `prev_events`."""

    version: RoomVersion
    room_id: str
    type: str
    sender: str
    auth_events: tuple[EventId, ...]
    before: bytes = field(repr=False)
    names: bytes = field(repr=False)
    end: bytes = field(repr=False)


def frame_of(pdu: Pdu, version: RoomVersion) -> Frame | None:
    """Of a message that `build` has made and that others may follow. None: there is more to it."""
    if (
        pdu.event.keys() != PARTS
        # "The content object must also be stripped of all keys, unless it is one of the following event
        # types".
        or pdu.type in version.redaction_content
        # It may hold numbers that are not written as they are elsewhere.
        or not version.strict_canonical_json
    ):
        return None
    names = encode_again({"room_id": pdu.room_id, "sender": pdu.sender})
    return Frame(
        version,
        pdu.room_id,
        pdu.type,
        pdu.sender,
        pdu.auth_events,
        b'{"auth_events":%b,"content":' % encode_again(list(pdu.auth_events)),
        b"," + names[1:-1],
        b"," + encode_again({"type": pdu.type})[1:],
    )


def message(
    frame: Frame,
    content: Mapping[str, Any],
    prev_events: Sequence[EventId],
    depth: int,
    origin_server_ts: int,
    signer: Signer,
) -> Pdu | None:
    """As `build` would make it. None: it says why it does not."""
    own = dict(content)
    try:
        said = encode(own, max_depth=limits.MAX_NESTING - 1)
    except NotCanonical:
        return None
    if (
        len(said) > limits.MAX_OWN_CONTENT_BYTES
        or len(prev_events) > limits.MAX_OWN_PREV_EVENTS
        or not 0 <= origin_server_ts <= LATEST
    ):
        return None
    prev = list(prev_events)
    before, end = frame.before, frame.end
    place = b',"depth":%d' % depth
    after = b',"origin_server_ts":%d,"prev_events":%b%b' % (origin_server_ts, encode_again(prev), frame.names)
    # "The content hash […] covers the entire event including the unredacted content", without `unsigned`,
    # `signatures` and `hashes`.
    content_hash = encode_base64(hashlib.sha256(before + said + place + after + end).digest())
    place += b',"hashes":{"sha256":"%b"}' % content_hash.encode()
    # "The event is first redacted […] and then signed"; "the reference hash" is made over the same.
    signed = before + b"{}" + place + after + end
    signatures = {signer.server: {signer.key_id: signature(signed, signer.key)}}
    canonical = before + said + place + after + b',"signatures":' + encode_again(signatures) + end
    if len(canonical) > limits.MAX_PDU_BYTES:
        return None
    return Pdu(
        event_id_of(signed, frame.version),
        frame.room_id,
        frame.type,
        None,
        frame.sender,
        own,
        origin_server_ts,
        depth,
        tuple(prev),
        frame.auth_events,
        {
            "type": frame.type,
            "sender": frame.sender,
            "content": own,
            "origin_server_ts": origin_server_ts,
            "depth": depth,
            "prev_events": prev,
            "auth_events": list(frame.auth_events),
            "room_id": frame.room_id,
            "hashes": {"sha256": content_hash},
            "signatures": signatures,
        },
        canonical,
    )
