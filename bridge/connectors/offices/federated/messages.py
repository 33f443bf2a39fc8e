"""The events that nodes exchange in the room of a shared office: requests to members of other nodes,
responses, cancels and updates.

They have types of their own, which no client displays; people read the messages of the Agent's node instead.
Requests and responses are encrypted for one node: people may not see unmasked parameters, nor a Computer's
configuration at all.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, UPDATES
from federation.matrix.message_content import reference

REQUEST: Final = "io.a2c.office.request"
RESPONSE: Final = "io.a2c.office.response"
CANCEL: Final = "io.a2c.office.cancel"
UPDATE: Final = "io.a2c.office.update"
TYPES: Final = frozenset({REQUEST, RESPONSE, CANCEL, UPDATE})

MAX_INLINE: Final = 40_000
"""Bytes of base64 that fit into an event. Larger content is uploaded as a file."""
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of encrypted content: a transport frame holds less."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_NOTICES: Final = frozenset(UPDATES.values())
_MAX_MXC_LENGTH: Final = 512


@dataclass(frozen=True, slots=True)
class Inline:
    """`sealed` is base64."""

    sealed: str


@dataclass(frozen=True, slots=True)
class InFile:
    """`sha256` is the file's hash in hexadecimal digits."""

    mxc: str
    sha256: str
    size: int


Body: TypeAlias = Inline | InFile


@dataclass(frozen=True, slots=True)
class Request:
    """`to` is a user id, `event` one of the protocol's `client:` events."""

    id: str
    to: str
    event: str
    body: Body


@dataclass(frozen=True, slots=True)
class Response:
    """The response to the request with this id, sent by the user to whom the request was addressed."""

    id: str
    to: str
    body: Body


@dataclass(frozen=True, slots=True)
class Cancel:
    id: str
    to: str


@dataclass(frozen=True, slots=True)
class Update:
    """A `notify:` event about the sender."""

    notice: str


OfficeEvent: TypeAlias = Request | Response | Cancel | Update


def content_of(event: OfficeEvent, *, request_event: str | None = None) -> tuple[str, dict[str, Any]]:
    """The event type and content. `request_event` is the event to which a response refers."""
    match event:
        case Request(id_, to, name, body):
            return REQUEST, {"id": id_, "to": to, "event": name, **_body(body)}
        case Response(id_, to, body):
            content = {"id": id_, "to": to, **_body(body)}
            return RESPONSE, content if request_event is None else reference(request_event, content)
        case Cancel(id_, to):
            return CANCEL, {"id": id_, "to": to}
        case Update(notice):
            return UPDATE, {"notice": notice}


def read(type_: str, content: Mapping[str, Any]) -> OfficeEvent | None:
    """None if the content does not have the form of its type."""
    if type_ == UPDATE:
        notice = content.get("notice")
        return Update(notice) if isinstance(notice, str) and notice in _NOTICES else None
    id_, to = content.get("id"), content.get("to")
    if not isinstance(id_, str) or not _ID.fullmatch(id_) or not isinstance(to, str):
        return None
    if type_ == CANCEL:
        return Cancel(id_, to)
    body = _read_body(content)
    if body is None:
        return None
    if type_ == RESPONSE:
        return Response(id_, to, body)
    event = content.get("event")
    if type_ != REQUEST or not isinstance(event, str) or event not in CLIENT_EVENTS:
        return None
    return Request(id_, to, event, body)


def _body(body: Body) -> dict[str, Any]:
    if isinstance(body, Inline):
        return {"sealed": body.sealed}
    return {"file": {"mxc": body.mxc, "sha256": body.sha256, "size": body.size}}


def _read_body(content: Mapping[str, Any]) -> Body | None:
    sealed, file = content.get("sealed"), content.get("file")
    if isinstance(sealed, str):
        return Inline(sealed)
    if not isinstance(file, Mapping):
        return None
    mxc, sha256, size = (file.get(name) for name in ("mxc", "sha256", "size"))
    if not isinstance(mxc, str) or len(mxc) > _MAX_MXC_LENGTH or not isinstance(sha256, str):
        return None
    if type(size) is not int or not 0 < size <= MAX_BYTES:
        return None
    return InFile(mxc, sha256, size)
