"""What is written down of what happens in an office, and read again from there."""

from collections.abc import Collection, Mapping
from typing import Any, Final

import orjson

from bridge.connectors.offices.cluster.member_rules import Seated
from bridge.connectors.offices.protocol.errors import interrupted
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.masking import Masked, masked
from storage.offices.records import NewRecord, PresentMember, RecordRow

JOINED: Final = "joined"
LEFT: Final = "left"
CALLED: Final = "called"
ANSWERED: Final = "answered"
TOOLS: Final = "tools"
ELSEWHERE: Final = "@"
"""How the id of a call begins that a member of another node has made: that node tells the room of it."""
PROCESS: Final = "process"
"""In what is written down of members and calls: the process of the node by which they are there."""
SID: Final = "sid"

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of an answer: more does not come in one frame of the transport."""
TOO_LARGE: Final[Mapping[str, Any]] = {
    "content": [{"type": "text", "text": "(The answer was not written down: it was too large, or no JSON.)"}]
}


def of_member(
    kind: str,
    member: Member,
    version: ProtocolVersion | None,
    at_ms: int,
    process: str = "",
    reason: str = "",
) -> NewRecord:
    """`process` is by whom it is connected, and its connection there is its `sid`; `reason` why it had to
    leave."""
    said = {
        "role": member.role,
        "name": member.name,
        "version": None if version is None else str(version),
        PROCESS: process,
        **({SID: member.sid} if process else {}),
        **({"reason": reason} if reason else {}),
    }
    return NewRecord(member.office_id, kind, None, orjson.dumps(said), at_ms)


def of_call(
    call_id: str, relay: Relay, secret_keys: Collection[str], at_ms: int, process: str = ""
) -> NewRecord:
    """With the parameters masked: nothing that is hidden is kept anywhere. `process` is who waits for the
    answer."""
    params = masked(relay.said["params"], secret_keys)
    said = {
        "req_id": relay.req_id,
        "agent": relay.caller.name,
        "computer": relay.target.name,
        "tool_name": relay.said["tool_name"],
        "params": params.value,
        "hidden": list(params.hidden),
        PROCESS: process,
        **({"direct": True} if relay.call_id else {}),
    }
    return NewRecord(relay.caller.office_id, CALLED, call_id, orjson.dumps(said), at_ms)


def of_answer(call_id: str, relay: Relay, answer: Mapping[str, Any], took_ms: int, at_ms: int) -> NewRecord:
    said = {"took_ms": took_ms, "answer": answer}
    try:
        body = orjson.dumps(said)
    except (TypeError, orjson.JSONEncodeError):
        body = b""
    if not 0 < len(body) <= MOST_BYTES:
        kept = {**TOO_LARGE, "isError": bool(answer.get("isError")), "code": answer.get("code")}
        body = orjson.dumps({"took_ms": took_ms, "answer": kept}, default=str)
    return NewRecord(relay.caller.office_id, ANSWERED, call_id, body, at_ms)


def of_interrupted(office_id: str, call_id: str, at_ms: int) -> NewRecord:
    """In place of the answer to a call whose process has ended."""
    said = {"took_ms": None, "answer": interrupted()}
    return NewRecord(office_id, ANSWERED, call_id, orjson.dumps(said), at_ms)


def of_tools(member: Member, content: Mapping[str, Any], at_ms: int) -> NewRecord:
    said = {"name": member.name, "tools": content}
    return NewRecord(member.office_id, TOOLS, None, orjson.dumps(said), at_ms)


def read_body(body: bytes) -> dict[str, Any]:
    said = orjson.loads(body)
    assert isinstance(said, dict), "it was one when it was written"
    return said


def process_of(body: bytes) -> str:
    """Of a member or a call; empty in what was written before processes had names."""
    process = read_body(body).get(PROCESS)
    return process if isinstance(process, str) else ""


def read_seated(there: PresentMember) -> Seated:
    """What was written down when it joined."""
    said = read_body(there.body)
    version = said["version"]
    sid = said.get(SID)
    return Seated(
        process=process_of(there.body),
        sid=sid if isinstance(sid, str) else "",
        role=AGENT if said["role"] == AGENT else COMPUTER,
        name=said["name"],
        version=None if version is None else parse(version),
        since=there.position,
    )


def read_call(call_id: str, body: bytes, at_ms: int) -> ToolCall:
    said = read_body(body)
    return ToolCall(
        call_id=call_id,
        req_id=said["req_id"],
        agent=said["agent"],
        computer=said["computer"],
        tool_name=said["tool_name"],
        # They were masked before they were written.
        params=Masked(said["params"], tuple(said["hidden"])),
        at_ms=at_ms,
        is_direct=said.get("direct") is True,
    )


def member_of_record(row: RecordRow) -> tuple[str, str, str | None]:
    """Its role, its name and the version that it speaks."""
    said = read_body(row.body)
    return said["role"], said["name"], said["version"]
