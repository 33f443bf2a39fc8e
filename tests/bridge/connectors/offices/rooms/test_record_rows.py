"""The rows of the call log."""

import json
from dataclasses import replace
from typing import Any

from bridge.connectors.offices.cluster.member_rules import RecordedMember
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms import record_rows as records
from storage.offices.records import NewRecord, PresentMember, RecordRow

BOSS, HANDS = Member("s", AGENT, "boss", "a"), Member("t", COMPUTER, "hands", "a")


def relay(**params: Any) -> RelayRequest:
    payload = {"req_id": "7", "tool_name": "add", "params": params}
    return RelayRequest(CLIENT_EVENTS[TOOL_CALL], BOSS, HANDS, payload, 5.0)


def row(record: NewRecord) -> RecordRow:
    return RecordRow(1, *record)


def test_the_record_of_a_member_has_its_version() -> None:
    """If the client sent one."""
    known = records.member_record(records.JOINED, BOSS, ProtocolVersion(0, 4, 0), 5)
    assert (known.office_id, known.kind, known.at_ms) == ("a", "joined", 5)
    assert records.member_of_record(row(known)) == ("agent", "boss", "0.4.0")
    old = records.member_record(records.LEFT, HANDS, None, 5)
    assert records.member_of_record(row(old)) == ("computer", "hands", None)


def test_secrets_of_a_call_are_not_stored() -> None:
    """The record lists what was hidden."""
    record = records.call_record("c", relay(a=1, password="hunter2", badge="0815"), ["badge"], 5)
    assert b"hunter2" not in record.body
    assert b"0815" not in record.body
    call = records.read_call("c", record.body, record.at_ms)
    assert (call.req_id, call.agent, call.computer, call.tool_name) == ("7", "boss", "hands", "add")
    assert call.params.value["a"] == 1
    assert sorted(call.params.hidden) == ["/badge", "/password"]


def test_a_direct_call_is_marked() -> None:
    """Its requester may have the same name as a member."""
    for call_id, is_direct in (("", False), ("c", True)):
        record = records.call_record("c", replace(relay(), call_id=call_id), [], 5)
        assert records.read_call("c", record.body, 5).is_direct is is_direct


def test_an_answer_is_stored_unchanged() -> None:
    """Unless it is not JSON, or too large: then only the fact that there was one."""
    answer = {"content": [{"type": "text", "text": "3"}], "isError": False}
    stored = json.loads(records.answer_record("c", relay(), answer, 12, 5).body)
    assert stored == {"took_ms": 12, "answer": answer}
    for odd in ({"blob": b"\0"}, {"n": 2**70}, {"text": "x" * (records.MAX_BYTES + 1)}):
        stored = json.loads(records.answer_record("c", relay(), {**odd, "isError": True}, 12, 5).body)
        assert stored["answer"]["isError"] is True
        assert "not stored" in stored["answer"]["content"][0]["text"]


def test_members_and_calls_are_recorded_with_their_process() -> None:
    """Older records have none."""
    for record in (
        records.member_record(records.JOINED, BOSS, None, 5, "p"),
        records.call_record("c", relay(), [], 5, "p"),
    ):
        assert records.process_of(record.body) == "p"
        body = json.loads(record.body)
        del body["process"]
        assert records.process_of(json.dumps(body).encode()) == ""


def test_an_interrupted_call_has_an_answer() -> None:
    """Without a duration."""
    record = records.interrupted_record("a", "c", 5)
    body = records.read_body(record.body)
    assert (record.kind, record.call_id, body["took_ms"]) == ("answered", "c", None)
    assert body["answer"]["meta"] == {"a2c_interrupted": True}


def test_tools_are_recorded_with_their_computer() -> None:
    record = records.tools_record(HANDS, {"hash": "x"}, 5)
    assert records.read_body(record.body) == {"name": "hands", "tools": {"hash": "x"}}


def test_a_member_is_read_from_its_record() -> None:
    """With its process and its connection there; older records have neither."""
    version = ProtocolVersion(0, 4, 0)
    record = records.member_record(records.JOINED, BOSS, version, 5, "p")
    assert records.read_recorded_member(PresentMember("o", 7, record.body)) == RecordedMember(
        "p", "s", AGENT, "boss", version, 7
    )
    old = json.dumps({"role": "computer", "name": "hands", "version": None}).encode()
    assert records.read_recorded_member(PresentMember("o", 3, old)) == RecordedMember(
        "", "", COMPUTER, "hands", None, 3
    )
