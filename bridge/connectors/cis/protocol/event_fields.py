"""The types of the fields of agent events, for the models in `events`, and their timestamps (RFC 3339).

A validator raises ValueError, which pydantic converts; its text continues a sentence that begins with the
field's name.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import PlainSerializer, PlainValidator

from bridge.agents.address import AgentAddress, InvalidAddress, agent_id_problem, node_id_problem
from bridge.agents.agent import AgentStatus, InvalidCapabilities, parse_capabilities, parse_status
from bridge.agents.updates import MAX_TEXT_LENGTH
from federation.matrix.identifiers import MAX_BYTES, has_valid_length

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST: Final = 64
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_timestamp(text: str) -> datetime | None:
    """Return the time in UTC; None if the text is not a timestamp.

    "Nine fractional digits in timestamps are common": digits beyond a microsecond are cut off.
    """
    match = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    *parts, fraction, sign, offset_hours, offset_minutes = match.groups()
    year, month, day, hour, minute, second = map(int, parts)
    if second > 60 or (sign and (int(offset_hours) > 23 or int(offset_minutes) > 59)):
        return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    try:
        if sign is None and second < 60:
            return datetime(year, month, day, hour, minute, second, micros, UTC)
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) if sign else timedelta()
        zone = timezone(-offset if sign == "-" else offset)
        # RFC 3339 writes a leap second as second 60; it is read as the first second of the next minute.
        time = datetime(year, month, day, hour, minute, min(second, 59), micros, zone)
        return (time + timedelta(seconds=second // 60)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_timestamp(time: datetime) -> str:
    """Return the shortest exact form: `2026-02-08T10:30:00Z`, `…00.250Z`, `…00.250001Z`."""
    precision = "microseconds" if time.microsecond % 1000 else "milliseconds" if time.microsecond else "seconds"
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def from_milliseconds(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def to_milliseconds(time: datetime) -> int:
    """Return milliseconds since 1970, rounded down."""
    return (time - _EPOCH) // _MILLISECOND


LONGEST_RUNTIME: Final = 64
MAX_TIMEOUT_SECS: Final = 2**53 - 1
_MAX_CACHED: Final = 4_096
# No valid address is longer, but a peer may send text of any length; longer text is not cached.
_LONGEST_CACHED: Final = 2 * MAX_BYTES + 1


def _agent_id(value: object) -> str:
    return _checked(value, agent_id_problem(_string(value)))


def _node_id(value: object) -> str:
    return _checked(value, node_id_problem(_string(value)))


def _address(value: object) -> AgentAddress:
    if isinstance(value, AgentAddress):
        return value
    text = _string(value)
    address = _parse_address(text) if len(text) <= _LONGEST_CACHED else AgentAddress.parse(text)
    if isinstance(address, InvalidAddress):
        raise ValueError("is not an address, as in worker-1@kitchen.local")
    return address


@lru_cache(_MAX_CACHED)
def _parse_address(text: str) -> AgentAddress | InvalidAddress:
    return AgentAddress.parse(text)


def _status(value: object) -> AgentStatus:
    status = parse_status(_string(value))
    if status is None:
        raise ValueError("is not running, idle, busy, error or shutdown")
    return status


def _runtime(value: object) -> str:
    """Published nodes know four runtimes. Palaver nodes send the agent's true runtime, which may be any
    name."""
    name = _string(value)
    if not 0 < len(name) <= LONGEST_RUNTIME or not name.isprintable() or name != name.strip():
        raise ValueError(f"is not a name of 1 to {LONGEST_RUNTIME} printable characters")
    # "`open_code` on the wire; `opencode` only when typed by a person": both are read.
    return "open_code" if name == "opencode" else name


def _timestamp(value: object) -> datetime:
    if isinstance(value, datetime):
        return value
    time = parse_timestamp(_string(value))
    if time is None:
        raise ValueError("is not a time, as in 2026-02-08T10:30:00Z")
    return time


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a string")
    return value


_text = _string


def _name(value: object) -> str:
    """An identifier that is stored as a key: short and not empty."""
    text = _string(value)
    if not text or "\0" in text or not has_valid_length(text):
        raise ValueError(f"does not have 1 to {MAX_BYTES} bytes")
    return text


def _context(value: object) -> str:
    return "" if value is None else _text(value)


def _metadata(value: object) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("is not an object")
    return value


def _capabilities(value: object) -> tuple[str, ...]:
    capabilities = parse_capabilities(value)
    if isinstance(capabilities, InvalidCapabilities):
        raise ValueError(f"is wrong: {capabilities.reason}")
    return capabilities


def _reason(value: object) -> str | None:
    text = _optional_text(value)
    if text is not None and len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"has more than {MAX_TEXT_LENGTH} characters")
    return text


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _exit_code(value: object) -> int:
    # Published nodes use an i32.
    return _integer(value, -(2**31), 2**31 - 1)


def _timeout(value: object) -> int | None:
    return None if value is None else _integer(value, 1, MAX_TIMEOUT_SECS)


def _integer(value: object, least: int, most: int) -> int:
    if type(value) is not int:  # excludes bool: True is an int in Python, but not an integer in JSON
        raise ValueError("is not an integer")
    if not least <= value <= most:
        raise ValueError(f"is not between {least} and {most}")
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _optional_name(value: object) -> str | None:
    return None if value is None else _name(value)


def _optional_address(value: object) -> AgentAddress | None:
    return None if value is None else _address(value)


def _checked(value: object, reason: str | None) -> str:
    if reason is not None:
        raise ValueError("is not a valid id")
    return _string(value)


def _written(value: object) -> str | None:
    return None if value is None else str(value)


AgentId = Annotated[str, PlainValidator(_agent_id)]
NodeId = Annotated[str, PlainValidator(_node_id)]
Address = Annotated[AgentAddress, PlainValidator(_address), PlainSerializer(_written)]
Name = Annotated[str, PlainValidator(_name)]
Text = Annotated[str, PlainValidator(_text)]
Metadata = Annotated[dict[str, Any], PlainValidator(_metadata)]
Status = Annotated[AgentStatus, PlainValidator(_status), PlainSerializer(_written)]
Timestamp = Annotated[datetime, PlainValidator(_timestamp), PlainSerializer(format_timestamp)]
Runtime = Annotated[str, PlainValidator(_runtime)]
Capabilities = Annotated[tuple[str, ...], PlainValidator(_capabilities), PlainSerializer(list)]
Reason = Annotated[str | None, PlainValidator(_reason)]
Context = Annotated[str, PlainValidator(_context)]
Boolean = Annotated[bool, PlainValidator(_boolean)]
ExitCode = Annotated[int, PlainValidator(_exit_code)]
TimeoutSecs = Annotated[int | None, PlainValidator(_timeout)]
OptionalAddress = Annotated[AgentAddress | None, PlainValidator(_optional_address), PlainSerializer(_written)]
OptionalText = Annotated[str | None, PlainValidator(_optional_text)]
OptionalName = Annotated[str | None, PlainValidator(_optional_name)]
