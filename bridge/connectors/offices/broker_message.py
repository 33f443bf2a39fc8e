"""What processes of one node say to each other over a broker: JSON, and nothing else is ever read.

Two kinds are Socket.IO's: an event for a connection of another process, and what that one acknowledges. One
kind is ours. Whatever has not the form of its kind is passed over: whoever gets at the broker can say what it
likes there.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bridge.connectors.offices.events import NAMESPACE

EMIT: Final = "emit"
CALLBACK: Final = "callback"
OURS: Final = "palaver"
MOST_BYTES: Final = 16 * 1024 * 1024
"""What a client sends has at most one megabyte, and may become some times as long in JSON."""
LONGEST: Final = 512
_BYTES: Final = "$palaver.bytes"


@dataclass(frozen=True, slots=True)
class SocketMessage:
    """As python-socketio's managers hand it to each other."""

    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfficeMessage:
    """`what` has happened, as the process `by` says."""

    by: str
    what: str
    said: Mapping[str, Any]


BrokerMessage: TypeAlias = SocketMessage | OfficeMessage


def encoded(message: Mapping[str, Any]) -> bytes:
    """Raises `ValueError` for what is no JSON, or is too long."""
    try:
        said = json.dumps(_shown(message), separators=(",", ":"))
    except (TypeError, RecursionError) as wrong:
        raise ValueError(f"it is no JSON: {type(wrong).__name__}") from None
    if len(said) > MOST_BYTES:
        raise ValueError(f"it has {len(said)} bytes")
    return said.encode()


def office_message(by: str, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": OURS, "host_id": by, "what": what, "said": said}


def read(data: object) -> BrokerMessage | None:
    """None for what none of us would say."""
    if not isinstance(data, bytes) or len(data) > MOST_BYTES:
        return None
    try:
        said = _hidden(json.loads(data))
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not _is_text(said.get("host_id")):
        return None
    match said.get("method"):
        case "emit":
            return SocketMessage(said) if _is_emit(said) else None
        case "callback":
            return SocketMessage(said) if _is_callback(said) else None
        case "palaver":
            what, body = said.get("what"), said.get("said")
            if _is_text(what) and isinstance(body, dict):
                return OfficeMessage(said["host_id"], str(what), body)
    return None


def _is_emit(said: Mapping[str, Any]) -> bool:
    callback = said.get("callback")
    return (
        said.get("namespace") == NAMESPACE
        and _is_text(said.get("event"))
        and _is_text(said.get("room"))
        and isinstance(said.get("data"), list)
        and said.get("binary") is False
        and said.get("skip_sid") is None
        and (callback is None or _is_place(callback))
    )


def _is_callback(said: Mapping[str, Any]) -> bool:
    place = [said.get("sid"), said.get("namespace"), said.get("id")]
    return _is_place(place) and isinstance(said.get("args"), list)


def _is_place(said: object) -> bool:
    """Which connection, and under which number it is asked."""
    if not isinstance(said, list) or len(said) != 3:
        return False
    sid, namespace, number = said
    return _is_text(sid) and namespace == NAMESPACE and type(number) is int and number > 0


def _is_text(said: object) -> bool:
    return isinstance(said, str) and 0 < len(said) <= LONGEST


def _shown(said: Any) -> Any:
    """Bytes, which clients may send as well, in place of which JSON has text."""
    if isinstance(said, bytes | bytearray):
        return {_BYTES: b64encode(said).decode()}
    if isinstance(said, Mapping):
        return {key: _shown(value) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [_shown(value) for value in said]
    return said


def _hidden(said: Any) -> Any:
    if isinstance(said, list):
        return [_hidden(value) for value in said]
    if not isinstance(said, dict):
        return said
    if set(said) == {_BYTES} and isinstance(said[_BYTES], str):
        try:
            return b64decode(said[_BYTES], validate=True)
        except Error as wrong:
            raise ValueError(str(wrong)) from None
    return {key: _hidden(value) for key, value in said.items()}
