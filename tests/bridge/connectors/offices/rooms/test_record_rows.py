"""What is written down of what happens in an office."""

import json
from dataclasses import replace
from typing import Any

from bridge.connectors.offices.cluster.member_rules import Seated
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms import record_rows as records
from storage.offices.records import NewRecord, PresentMember, RecordRow

BOSS, HANDS = Member("s", AGENT, "boss", "a"), Member("t", COMPUTER, "hands", "a")


def relay(**params: Any) -> Relay:
    said = {"req_id": "7", "tool_name": "add", "params": params}
    return Relay(CLIENT_EVENTS[TOOL_CALL], BOSS, HANDS, said, 5.0)


def row(record: NewRecord) -> RecordRow:
    return RecordRow(1, *record)


def test_a_member_is_written_down_with_its_version() -> None:
    """If it has one."""
    known = records.of_member(records.JOINED, BOSS, ProtocolVersion(0, 4, 0), 5)
    assert (known.office_id, known.kind, known.at_ms) == ("a", "joined", 5)
    assert records.member_of_record(row(known)) == ("agent", "boss", "0.4.0")
    old = records.of_member(records.LEFT, HANDS, None, 5)
    assert records.member_of_record(row(old)) == ("computer", "hands", None)


def test_secrets_of_a_call_are_written_down_nowhere() -> None:
    """What is read again is the call with what was hidden."""
    record = records.of_call("c", relay(a=1, password="hunter2", badge="0815"), ["badge"], 5)
    assert b"hunter2" not in record.body
    assert b"0815" not in record.body
    call = records.read_call("c", record.body, record.at_ms)
    assert (call.req_id, call.agent, call.computer, call.tool_name) == ("7", "boss", "hands", "add")
    assert call.params.value["a"] == 1
    assert sorted(call.params.hidden) == ["/badge", "/password"]


def test_a_call_by_who_is_no_member_is_known_as_one() -> None:
    """Whatever members are called."""
    for call_id, is_direct in (("", False), ("c", True)):
        record = records.of_call("c", replace(relay(), call_id=call_id), [], 5)
        assert records.read_call("c", record.body, 5).is_direct is is_direct


def test_an_answer_is_written_down_as_it_was() -> None:
    """Unless it is no JSON, or more than is kept: then that it came is."""
    answer = {"content": [{"type": "text", "text": "3"}], "isError": False}
    kept = json.loads(records.of_answer("c", relay(), answer, 12, 5).body)
    assert kept == {"took_ms": 12, "answer": answer}
    for odd in ({"blob": b"\0"}, {"n": 2**70}, {"text": "x" * (records.MOST_BYTES + 1)}):
        kept = json.loads(records.of_answer("c", relay(), {**odd, "isError": True}, 12, 5).body)
        assert kept["answer"]["isError"] is True
        assert "not written down" in kept["answer"]["content"][0]["text"]


def test_whose_they_are_is_written_down_with_members_and_calls() -> None:
    """The process of the node. What was written before processes had names is nobody's."""
    for record in (
        records.of_member(records.JOINED, BOSS, None, 5, "p"),
        records.of_call("c", relay(), [], 5, "p"),
    ):
        assert records.process_of(record.body) == "p"
        said = json.loads(record.body)
        assert (
            records.process_of(json.dumps({name: said[name] for name in said if name != "process"}).encode())
            == ""
        )


def test_an_answer_that_never_came_is_written_down_as_that() -> None:
    """Nobody knows how long it would have taken."""
    record = records.of_interrupted("a", "c", 5)
    said = records.read_body(record.body)
    assert (record.kind, record.call_id, said["took_ms"]) == ("answered", "c", None)
    assert said["answer"]["meta"] == {"a2c_interrupted": True}


def test_tools_are_those_of_a_computer() -> None:
    record = records.of_tools(HANDS, {"hash": "x"}, 5)
    assert records.read_body(record.body) == {"name": "hands", "tools": {"hash": "x"}}


def test_a_seat_is_read_again() -> None:
    """By which process it is, and by which of its connections; what was written before that stood there has
    neither."""
    version = ProtocolVersion(0, 4, 0)
    record = records.of_member(records.JOINED, BOSS, version, 5, "p")
    assert records.read_seated(PresentMember("o", 7, record.body)) == Seated(
        "p", "s", AGENT, "boss", version, 7
    )
    old = json.dumps({"role": "computer", "name": "hands", "version": None}).encode()
    assert records.read_seated(PresentMember("o", 3, old)) == Seated("", "", COMPUTER, "hands", None, 3)
