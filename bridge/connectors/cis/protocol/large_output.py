"""Texts that are too long for an event: they become media, and what stays is shortened.

"events stay below 65,536 bytes; longer output becomes media, with URL, size and SHA-256 in metadata and a
shortened `output`". A long prompt or context goes the same way.

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
"""Bytes that stay of a text: its beginning and its end."""
_MOST: Final[Mapping[PeerProfile, int]] = {
    PeerProfile.MATRIX: MAX_OWN_CONTENT_BYTES,
    # With room for the envelope.
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
    """To be stored, as UTF-8. `name` is that of its field."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where the whole text is. `sha256` is of its bytes, in hexadecimal."""

    url: Mxc
    size: int
    sha256: str


_LONGEST_REFERENCE: Final = Stored(Mxc("x" * 255, "x" * 255), _LARGEST, "0" * 64)


def fits(rendered: Mapping[str, Any], profile: PeerProfile) -> bool:
    """Whether an event with this content can be sent as it is."""
    # A Matrix event is canonical JSON, which is never longer than this.
    return len(orjson.dumps(rendered)) <= _MOST[profile]


def too_long(event: AnyEvent, profile: PeerProfile) -> tuple[LongText, ...] | TooLarge:
    """What has to be stored before the event can be sent: nothing, mostly."""
    if _fits(event, profile):
        return ()
    inner = _inner(event)
    texts = [(name, getattr(inner, name) or "") for name in _FIELDS.get(type(event), ())]
    worth_it = [(name, text) for name, text in texts if len(text.encode()) > SHORT]
    longest_first = sorted(worth_it, key=lambda named: -len(named[1].encode()))
    for count in range(1, len(longest_first) + 1):
        taken = longest_first[:count]
        if _fits(shortened(event, {name: _LONGEST_REFERENCE for name, _ in taken}), profile):
            return tuple(LongText(name, text) for name, text in taken)
    return TooLarge("The event is too large, and cannot be shortened.")


def shortened(event: AnyEvent, stored: Mapping[str, Stored]) -> AnyEvent:
    """The event with references in place of the texts in these fields, and of each as much as says what it is
    about."""
    inner = _inner(event)
    assert inner is not None, "only what was found too long is shortened"
    references = {
        name: {"url": str(one.url), "size": one.size, "sha256": one.sha256} for name, one in stored.items()
    }
    texts: dict[str, Any] = {name: _short(getattr(inner, name)) for name in stored}
    made = inner.model_copy(update={**texts, "metadata": {**inner.metadata, KEY: references}})
    return event.model_copy(update={_place(inner): made})


def stored_of(event: AnyEvent, server: str) -> dict[str, Stored]:
    """Where the whole texts are, by field, as the event says. `server` is that of its sender: it has stored
    them itself, and we are not sent anywhere else."""
    inner = _inner(event)
    return {} if inner is None else stored_in(inner.metadata, server, _FIELDS[type(event)])


def stored_in(
    metadata: Mapping[str, Any], server: str, names: Sequence[str] = _FIELDS[TaskRequest]
) -> dict[str, Stored]:
    """The same, of the metadata of a task that was asked for by such a server."""
    said = metadata.get(KEY)
    if not isinstance(said, dict):
        return {}
    read = {name: _stored(said.get(name), server) for name in names}
    return {name: one for name, one in read.items() if one is not None}


def _stored(said: Any, server: str) -> Stored | None:
    if not isinstance(said, dict):
        return None
    url, size, sha256 = said.get("url"), said.get("size"), said.get("sha256")
    mxc = parse_mxc(url) if isinstance(url, str) else None
    if mxc is None or mxc.server != server or type(size) is not int or not 0 <= size <= _LARGEST:
        return None
    if not isinstance(sha256, str) or _SHA256.fullmatch(sha256) is None:
        return None
    return Stored(mxc, size, sha256)


def _inner(event: AnyEvent) -> TaskPayload | TaskResult | None:
    match event:
        case TaskRequest():
            return event.task
        case TaskResponse():
            return event.result
        case _:
            return None


def _place(inner: TaskPayload | TaskResult) -> str:
    return "task" if isinstance(inner, TaskPayload) else "result"


def _short(text: str) -> str:
    output = OutputCapture(SHORT)
    output.add(text.encode())
    return output.kept().text


def _fits(event: AnyEvent, profile: PeerProfile) -> bool:
    return fits(content.render(event, profile), profile)
