"""Builds and reads the rows of the call log."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from bridge.connectors.offices.cluster.member_rules import RecordedMember
from bridge.connectors.offices.protocol.errors import interrupted
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse_version
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.masking import MaskedValue, masked
from storage.offices.records import NewRecord, PresentMember, RecordRow

JOINED: Final = "joined"
LEFT: Final = "left"
CALLED: Final = "called"
ANSWERED: Final = "answered"
TOOLS: Final = "tools"
REMOTE_PREFIX: Final = "@"
"""Call ids of calls by members of other nodes begin with it: those nodes send the call's message to the
room."""
PROCESS: Final = "process"
"""The key for the process to which a member is connected, or which relays a call."""
SID: Final = "sid"

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of an answer: a transport frame holds less."""
TOO_LARGE: Final[Mapping[str, Any]] = {
    "content": [{"type": "text", "text": "(The answer was not stored: it was too large or not valid JSON.)"}]
}


def member_record(
    kind: str, member: Member, version: ProtocolVersion | None, at_ms: int, process: str = "", reason: str = ""
) -> NewRecord:
    """`process` is the process to which the member is connected as `sid`. `reason` says why it was removed
    from the office."""
    body = {
        "role": member.role,
        "name": member.name,
        "version": None if version is None else str(version),
        PROCESS: process,
        **({SID: member.sid} if process else {}),
        **({"reason": reason} if reason else {}),
    }
    return NewRecord(member.office_id, kind, None, orjson.dumps(body), at_ms)


def call_record(
    call_id: str, request: RelayRequest, secret_keys: Collection[str], at_ms: int, process: str = ""
) -> NewRecord:
    """The parameters are masked: hidden values are not stored anywhere. `process` relays the call."""
    params = masked(request.payload["params"], secret_keys)
    body = {
        "req_id": request.req_id,
        "agent": request.caller.name,
        "computer": request.target.name,
        "tool_name": request.payload["tool_name"],
        "params": params.value,
        "hidden": list(params.hidden),
        PROCESS: process,
        **({"direct": True} if request.call_id else {}),
    }
    return NewRecord(request.caller.office_id, CALLED, call_id, orjson.dumps(body), at_ms)


def answer_record(
    call_id: str, request: RelayRequest, answer: Mapping[str, Any], took_ms: int, at_ms: int
) -> NewRecord:
    try:
        body = orjson.dumps({"took_ms": took_ms, "answer": answer})
    except (TypeError, orjson.JSONEncodeError):
        body = b""
    if not 0 < len(body) <= MAX_BYTES:
        stored = {**TOO_LARGE, "isError": bool(answer.get("isError")), "code": answer.get("code")}
        body = orjson.dumps({"took_ms": took_ms, "answer": stored}, default=str)
    return NewRecord(request.caller.office_id, ANSWERED, call_id, body, at_ms)


def interrupted_record(office_id: str, call_id: str, at_ms: int) -> NewRecord:
    """The answer to a call whose process has ended."""
    body = {"took_ms": None, "answer": interrupted()}
    return NewRecord(office_id, ANSWERED, call_id, orjson.dumps(body), at_ms)


def tools_record(member: Member, content: Mapping[str, Any], at_ms: int) -> NewRecord:
    body = {"name": member.name, "tools": content}
    return NewRecord(member.office_id, TOOLS, None, orjson.dumps(body), at_ms)


def read_body(body: bytes) -> dict[str, Any]:
    value = orjson.loads(body)
    assert isinstance(value, dict), "bodies are written as objects"
    return value


def process_of(body: bytes) -> str:
    """The process of a member or call; empty in records from before processes had names."""
    process = read_body(body).get(PROCESS)
    return process if isinstance(process, str) else ""


def read_recorded_member(there: PresentMember) -> RecordedMember:
    """The member as recorded when it joined."""
    body = read_body(there.body)
    version = body["version"]
    sid = body.get(SID)
    return RecordedMember(
        process=process_of(there.body),
        sid=sid if isinstance(sid, str) else "",
        role=AGENT if body["role"] == AGENT else COMPUTER,
        name=body["name"],
        version=None if version is None else parse_version(version),
        since=there.position,
    )


def read_call(call_id: str, body: bytes, at_ms: int) -> ToolCall:
    content = read_body(body)
    return ToolCall(
        call_id=call_id,
        req_id=content["req_id"],
        agent=content["agent"],
        computer=content["computer"],
        tool_name=content["tool_name"],
        # They were masked before they were stored.
        params=MaskedValue(content["params"], tuple(content["hidden"])),
        at_ms=at_ms,
        is_direct=content.get("direct") is True,
    )


def member_of_record(row: RecordRow) -> tuple[str, str, str | None]:
    """Its role, name and protocol version."""
    body = read_body(row.body)
    return body["role"], body["name"], body["version"]
