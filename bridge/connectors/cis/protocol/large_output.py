"""Stores texts that are too long for an event as media, and shortens them in the event.

"events stay below 65,536 bytes; longer output becomes media, with URL, size and SHA-256 in metadata and a
shortened `output`". A long prompt or context is handled in the same way.

    "metadata": {"io.palaver.media": {"output": {"url": "mxc://…", "size": 100000, "sha256": "…"}}}
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from bridge.agents.local.output import OutputCapture
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.envelope import MAX_BODY
from bridge.connectors.cis.protocol.events import AnyEvent, TaskPayload, TaskRequest, TaskResponse, TaskResult
from bridge.connectors.cis.protocol.refusals import TooLarge
from bridge.peers.peer import PeerProfile
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.media.media import Mxc, parse_mxc

KEY: Final = "io.palaver.media"

SHORT: Final = 4_096
"""The size in bytes of a shortened text, which keeps its beginning and its end."""
_MAX_CONTENT_BYTES: Final[Mapping[PeerProfile, int]] = {
    PeerProfile.MATRIX: MAX_OWN_CONTENT_BYTES,
    # This leaves room for the envelope.
    PeerProfile.CIS_1_1: MAX_BODY - 8 * 1024,
}
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_LARGEST: Final = 2**53 - 1

_FIELDS: Final[Mapping[type[AnyEvent], tuple[str, ...]]] = {
    TaskResponse: ("output",),
    TaskRequest: ("prompt", "context", "system_prompt"),
}


@dataclass(frozen=True, slots=True)
class LongText:
    """A text to be stored as UTF-8. `name` is the name of its field."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StoredText:
    """A reference to the full text. `sha256` is the hash of its bytes, in hexadecimal."""

    url: Mxc
    size: int
    sha256: str


_LONGEST_REFERENCE: Final = StoredText(Mxc("x" * 255, "x" * 255), _LARGEST, "0" * 64)


def fits(rendered: Mapping[str, Any], profile: PeerProfile) -> bool:
    """Return whether an event with this content is small enough to be sent."""
    # A Matrix event is canonical JSON, which is never longer than orjson's output.
    return len(orjson.dumps(rendered)) <= _MAX_CONTENT_BYTES[profile]


def texts_to_store(event: AnyEvent, profile: PeerProfile) -> tuple[LongText, ...] | TooLarge:
    """Return the texts that must be stored before the event can be sent; usually none."""
    if _fits(event, profile):
        return ()
    inner = _inner(event)
    texts = [(name, getattr(inner, name) or "") for name in _FIELDS.get(type(event), ())]
    candidates = [(name, text) for name, text in texts if len(text.encode()) > SHORT]
    longest_first = sorted(candidates, key=lambda named: -len(named[1].encode()))
    for count in range(1, len(longest_first) + 1):
        chosen = longest_first[:count]
        if _fits(shorten(event, {name: _LONGEST_REFERENCE for name, _ in chosen}), profile):
            return tuple(LongText(name, text) for name, text in chosen)
    return TooLarge("The event is too large, and cannot be shortened.")


def shorten(event: AnyEvent, stored: Mapping[str, StoredText]) -> AnyEvent:
    """Return the event with shortened texts in these fields, and references to the full texts in its
    metadata."""
    inner = _inner(event)
    assert inner is not None, "only a task request or response has long texts"
    references = {
        name: {"url": str(text.url), "size": text.size, "sha256": text.sha256} for name, text in stored.items()
    }
    texts: dict[str, Any] = {name: _short(getattr(inner, name)) for name in stored}
    changed = inner.model_copy(update={**texts, "metadata": {**inner.metadata, KEY: references}})
    return event.model_copy(update={_field_of(inner): changed})


def stored_of(event: AnyEvent, server: str) -> dict[str, StoredText]:
    """Return the references to full texts in an event, by field. `server` is the sender's server, which has
    stored them itself; a reference to any other server is ignored."""
    inner = _inner(event)
    return {} if inner is None else stored_in(inner.metadata, server, _FIELDS[type(event)])


def stored_in(
    metadata: Mapping[str, Any], server: str, names: Sequence[str] = _FIELDS[TaskRequest]
) -> dict[str, StoredText]:
    """Return the references in the metadata of a task that `server` requested."""
    references = metadata.get(KEY)
    if not isinstance(references, dict):
        return {}
    texts = {name: _stored(references.get(name), server) for name in names}
    return {name: text for name, text in texts.items() if text is not None}


def _stored(reference: Any, server: str) -> StoredText | None:
    if not isinstance(reference, dict):
        return None
    url, size, sha256 = reference.get("url"), reference.get("size"), reference.get("sha256")
    mxc = parse_mxc(url) if isinstance(url, str) else None
    if mxc is None or mxc.server != server or type(size) is not int or not 0 <= size <= _LARGEST:
        return None
    if not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
        return None
    return StoredText(mxc, size, sha256)


def _inner(event: AnyEvent) -> TaskPayload | TaskResult | None:
    match event:
        case TaskRequest():
            return event.task
        case TaskResponse():
            return event.result
        case _:
            return None


def _field_of(inner: TaskPayload | TaskResult) -> str:
    return "task" if isinstance(inner, TaskPayload) else "result"


def _short(text: str) -> str:
    output = OutputCapture(SHORT)
    output.add(text.encode())
    return output.captured().text


def _fits(event: AnyEvent, profile: PeerProfile) -> bool:
    return fits(content.render(event, profile), profile)
