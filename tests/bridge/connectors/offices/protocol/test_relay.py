"""The checks before a request is relayed to a Computer."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.errors import Profile, computer_not_found
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER
from bridge.connectors.offices.protocol.relay import Refusal, RelayRequest, RelayRules, check_request
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse_version
from tests.bridge.connectors.offices.protocol.test_office import joined

CALL = {"agent": "boss", "req_id": "1", "computer": "hands", "tool_name": "add", "params": {}, "timeout": 5}
TOOLS = {"agent": "boss", "req_id": "1", "computer": "hands"}
VERSIONS = {"c1": "0.4.0", "c2": "0.2.0", "c3": ""}


def version_of(sid: str) -> ProtocolVersion | None:
    return parse_version(VERSIONS.get(sid, ""))


OFFICES = joined(
    ("a1", AGENT, "boss", "a"),
    ("c1", COMPUTER, "hands", "a"),
    ("c2", COMPUTER, "eyes", "a"),
    ("c3", COMPUTER, "ears", "a"),
    ("x1", COMPUTER, "feet", "b"),
)


def checked(
    name: str, payload: Any, sid: str = "a1", profile: Profile = "wire", in_flight: int = 0
) -> Refusal | RelayRequest:
    return check_request(name, payload, sid, OFFICES, RelayRules(profile, version_of), in_flight=in_flight)


def refused(*arguments: Any, **options: Any) -> tuple[int, int, str]:
    """The number of the failed check, the code and the message."""
    refusal = checked(*arguments, **options)
    assert isinstance(refusal, Refusal)
    assert set(refusal.answer) <= {"code", "message", "details"}
    return refusal.rule, refusal.answer["code"], refusal.answer["message"]


def test_a_valid_request_is_relayed_unchanged() -> None:
    """The deadline of a tool call is its timeout with some slack."""
    request = checked(TOOL_CALL, {**CALL, "extra": 1})
    assert isinstance(request, RelayRequest)
    assert (request.caller.sid, request.target.sid, request.deadline) == ("a1", "c1", 10.0)
    assert request.payload == {**CALL, "extra": 1}
    assert (request.req_id, request.is_tool_call) == ("1", True)
    request = checked("client:get_tools", TOOLS)
    assert isinstance(request, RelayRequest)
    assert (request.deadline, request.is_tool_call) == (60.0, False)


@pytest.mark.parametrize("name", CLIENT_EVENTS)
def test_the_shape_is_checked_first(name: str) -> None:
    """For every caller, joined or not."""
    for sid in ("a1", "c1", "stranger"):
        assert refused(name, {}, sid)[:2] == (1, 400)
    for timeout in (0, 3601):
        rule, code, message = refused(TOOL_CALL, {**CALL, "timeout": timeout}, "stranger")
        assert (rule, code, "'timeout'" in message) == (1, 400, True)
    assert refused("client:unheard_of", TOOLS)[:2] == (1, 400)


def test_a_caller_in_no_office_finds_no_computer() -> None:
    """The profile `spec` has a code of its own for it."""
    assert refused(TOOL_CALL, CALL, "stranger") == (2, 404, "Computer with name 'hands' not found")
    assert refused(TOOL_CALL, CALL, "stranger", profile="spec")[:2] == (2, 4103)


def test_only_an_agent_can_send_requests() -> None:
    assert refused("client:get_tools", TOOLS, "c2")[:2] == (3, 403)


def test_a_computer_in_another_office_is_not_found() -> None:
    """Published clients receive the same bytes as for an unknown name."""
    elsewhere, unknown = [checked("client:get_tools", {**TOOLS, "computer": one}) for one in ("feet", "nobody")]
    assert isinstance(elsewhere, Refusal)
    assert isinstance(unknown, Refusal)
    assert elsewhere.answer == computer_not_found("feet")
    assert unknown.answer == computer_not_found("nobody")
    assert refused("client:get_tools", {**TOOLS, "computer": "feet"}, profile="spec") == (
        4,
        4104,
        "Cross-room access denied",
    )
    assert refused("client:get_tools", {**TOOLS, "computer": "nobody"}, profile="spec")[:2] == (4, 404)


def test_the_target_must_be_a_computer() -> None:
    assert refused("client:get_tools", {**TOOLS, "computer": "boss"})[:2] == (5, 404)


def test_an_event_newer_than_the_target_is_refused() -> None:
    """The target's version decides, not the caller's."""
    blob = {**TOOLS, "chunk_offset": 0, "eof": True, "blob": ""}
    skills = {**TOOLS, "computer": "eyes"}
    assert isinstance(checked("client:put_blob", blob), RelayRequest)
    assert refused("client:put_blob", {**blob, "computer": "eyes"})[:2] == (6, 404)
    assert isinstance(checked("client:get_skills", skills), RelayRequest)
    assert refused("client:get_skills", {**TOOLS, "computer": "ears"})[:2] == (6, 404)
    assert isinstance(checked("client:get_tools", {**TOOLS, "computer": "ears"}), RelayRequest)


def test_the_limit_is_checked_last() -> None:
    assert refused(TOOL_CALL, CALL, in_flight=100)[:2] == (7, 429)
    assert refused(TOOL_CALL, {**CALL, "computer": "nobody"}, in_flight=100)[0] == 4
