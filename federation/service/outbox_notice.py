"""What a process tells the others when it has queued something for a server that one of them sends to, or has
heard of it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from federation.canonical_json import decode
from federation.destination_messages import Heard, Input, Queued
from federation.send_queue import EduRef, PduRef

MOST_BYTES: Final = 7_900
"""Postgres takes notifications of less than 8,000 bytes."""


class Notice(NamedTuple):
    destination: str
    messages: tuple[Input, ...]
    """For whoever sends to it."""


def notices(destination: str, left: Sequence[Input]) -> Iterator[str]:
    """As few as will do. The passing EDUs stay out: what they are is known to the process that made them, and
    by the time another could send them they are worth little."""
    queued = [message for message in left if isinstance(message, Queued)]
    pdus = [[pdu.position, pdu.room_id] for one in queued for pdu in one.pdus]
    edus = [edu.position for one in queued for edu in one.edus if not edu.ephemeral]
    yield from _fitting({"destination": destination, "pdus": pdus, "edus": edus})
    if any(isinstance(message, Heard) for message in left):
        yield json.dumps({"destination": destination, "heard": True})


def _fitting(notice: dict[str, Any]) -> Iterator[str]:
    pdus, edus = notice["pdus"], notice["edus"]
    if not pdus and not edus:
        return
    text = json.dumps(notice)
    if len(text) <= MOST_BYTES:
        yield text
        return
    for half in (slice(None, len(pdus) // 2), slice(len(pdus) // 2, None)):
        other = slice(None, len(edus) // 2) if half.start is None else slice(len(edus) // 2, None)
        yield from _fitting({**notice, "pdus": pdus[half], "edus": edus[other]})


def read_notice(text: str) -> Notice:
    notice = decode(text.encode())
    if notice.get("heard") is True:
        return Notice(notice["destination"], (Heard(),))
    pdus = tuple(PduRef(position, room_id) for position, room_id in notice["pdus"])
    queued = Queued(pdus, tuple(EduRef(position) for position in notice["edus"]))
    return Notice(notice["destination"], (queued,))
