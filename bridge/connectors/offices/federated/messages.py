"""What travels through the room of an office that several nodes share: requests to members of other nodes,
their answers, the word to stop, and that something has changed.

They are events of types of their own, which no client shows: what people read of a call the Agent's node
tells them. What is asked and answered is for one node, and is sealed for it: people read parameters with
their secrets hidden, and the configuration of a Computer not at all.
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

MOST_INLINE: Final = 40_000
"""Bytes of what is sealed that have room in an event; more is a file."""
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of what is sealed: more does not come in one frame of the transport."""
_ID: Final = re.compile(r"[0-9a-f]{32}")
_NOTICES: Final = frozenset(UPDATES.values())
_LONGEST_MXC: Final = 512


@dataclass(frozen=True, slots=True)
class Inline:
    """Base64."""

    sealed: str


@dataclass(frozen=True, slots=True)
class InFile:
    """`sha256` is that of the file, in hexadecimal digits."""

    mxc: str
    sha256: str
    size: int


Body: TypeAlias = Inline | InFile


@dataclass(frozen=True, slots=True)
class Request:
    """`to` is a user; `event` one of the protocol's `client:` events."""

    id: str
    to: str
    event: str
    body: Body


@dataclass(frozen=True, slots=True)
class Response:
    """To the request of that id, which the sender was asked."""

    id: str
    to: str
    body: Body


@dataclass(frozen=True, slots=True)
class Cancel:
    id: str
    to: str


@dataclass(frozen=True, slots=True)
class Update:
    """A `notify:` event of whoever says it."""

    notice: str


Travelling: TypeAlias = Request | Response | Cancel | Update


def content_of(said: Travelling, *, request_event: str | None = None) -> tuple[str, dict[str, Any]]:
    """Type and content. `request_event`: what a response is to."""
    match said:
        case Request(id_, to, event, body):
            return REQUEST, {"id": id_, "to": to, "event": event, **_body(body)}
        case Response(id_, to, body):
            content = {"id": id_, "to": to, **_body(body)}
            return RESPONSE, content if request_event is None else reference(request_event, content)
        case Cancel(id_, to):
            return CANCEL, {"id": id_, "to": to}
        case Update(notice):
            return UPDATE, {"notice": notice}


def read(type_: str, content: Mapping[str, Any]) -> Travelling | None:
    """None for what has not the form of its type."""
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
    if not isinstance(mxc, str) or len(mxc) > _LONGEST_MXC or not isinstance(sha256, str):
        return None
    if type(size) is not int or not 0 < size <= MOST_BYTES:
        return None
    return InFile(mxc, sha256, size)
