"""Whether what an Agent asks of a Computer is brought to it."""

from typing import Any

import pytest

from bridge.connectors.offices.protocol.errors import Profile, computer_not_found
from bridge.connectors.offices.protocol.events import CLIENT_EVENTS, TOOL_CALL
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER
from bridge.connectors.offices.protocol.relay import Refusal, Relay, Rules, examine
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse
from tests.bridge.connectors.offices.protocol.test_office import joined

CALL = {"agent": "boss", "req_id": "1", "computer": "hands", "tool_name": "add", "params": {}, "timeout": 5}
TOOLS = {"agent": "boss", "req_id": "1", "computer": "hands"}
VERSIONS = {"c1": "0.4.0", "c2": "0.2.0", "c3": ""}


def version_of(sid: str) -> ProtocolVersion | None:
    return parse(VERSIONS.get(sid, ""))


OFFICES = joined(
    ("a1", AGENT, "boss", "a"),
    ("c1", COMPUTER, "hands", "a"),
    ("c2", COMPUTER, "eyes", "a"),
    ("c3", COMPUTER, "ears", "a"),
    ("x1", COMPUTER, "feet", "b"),
)


def examined(
    name: str, said: Any, sid: str = "a1", profile: Profile = "wire", in_flight: int = 0
) -> Refusal | Relay:
    return examine(name, said, sid, OFFICES, Rules(profile, version_of), in_flight=in_flight)


def refused(*given: Any, **more: Any) -> tuple[int, int, str]:
    """The rule that refused, the code and the sentence."""
    refusal = examined(*given, **more)
    assert isinstance(refusal, Refusal)
    assert set(refusal.answer) <= {"code", "message", "details"}
    return refusal.rule, refusal.answer["code"], refusal.answer["message"]


def test_what_is_allowed_is_brought_to_the_computer() -> None:
    """As it was said; a call has some time beyond its own."""
    found = examined(TOOL_CALL, {**CALL, "extra": 1})
    assert isinstance(found, Relay)
    assert (found.caller.sid, found.target.sid, found.deadline) == ("a1", "c1", 10.0)
    assert found.said == {**CALL, "extra": 1}
    assert (found.req_id, found.is_tool_call) == ("1", True)
    found = examined("client:get_tools", TOOLS)
    assert isinstance(found, Relay)
    assert (found.deadline, found.is_tool_call) == (60.0, False)


@pytest.mark.parametrize("name", CLIENT_EVENTS)
def test_the_shape_is_looked_at_first(name: str) -> None:
    """Whoever asks, joined or not."""
    for sid in ("a1", "c1", "stranger"):
        assert refused(name, {}, sid)[:2] == (1, 400)
    for timeout in (0, 3601):
        rule, code, message = refused(TOOL_CALL, {**CALL, "timeout": timeout}, "stranger")
        assert (rule, code, "'timeout'" in message) == (1, 400, True)
    assert refused("client:unheard_of", TOOLS) == (1, 400, "There is no event client:unheard_of")


def test_who_is_in_no_office_finds_nobody() -> None:
    """The letter has a code for it."""
    assert refused(TOOL_CALL, CALL, "stranger") == (2, 404, "Computer with name 'hands' not found")
    assert refused(TOOL_CALL, CALL, "stranger", profile="spec")[:2] == (2, 4103)


def test_only_an_agent_asks() -> None:
    assert refused("client:get_tools", TOOLS, "c2")[:2] == (3, 403)


def test_another_office_is_as_nothing() -> None:
    """Published clients are answered the same bytes for nobody and for somebody elsewhere."""
    elsewhere, nobody = [
        examined("client:get_tools", {**TOOLS, "computer": one}) for one in ("feet", "nobody")
    ]
    assert isinstance(elsewhere, Refusal)
    assert isinstance(nobody, Refusal)
    assert elsewhere.answer == computer_not_found("feet")
    assert nobody.answer == computer_not_found("nobody")
    assert refused("client:get_tools", {**TOOLS, "computer": "feet"}, profile="spec") == (
        4,
        4104,
        "Cross-room access denied",
    )
    assert refused("client:get_tools", {**TOOLS, "computer": "nobody"}, profile="spec")[:2] == (4, 404)


def test_the_target_is_a_computer() -> None:
    assert refused("client:get_tools", {**TOOLS, "computer": "boss"})[:2] == (5, 404)


def test_what_is_newer_than_the_target_is_not_sent() -> None:
    """By its own version, whatever the caller's is."""
    blob = {**TOOLS, "chunk_offset": 0, "eof": True, "blob": ""}
    skills = {**TOOLS, "computer": "eyes"}
    assert isinstance(examined("client:put_blob", blob), Relay)
    assert refused("client:put_blob", {**blob, "computer": "eyes"})[:2] == (6, 404)
    assert isinstance(examined("client:get_skills", skills), Relay)
    assert refused("client:get_skills", {**TOOLS, "computer": "ears"})[:2] == (6, 404)
    assert isinstance(examined("client:get_tools", {**TOOLS, "computer": "ears"}), Relay)


def test_too_many_at_once_are_refused_last() -> None:
    assert refused(TOOL_CALL, CALL, in_flight=100)[:2] == (7, 429)
    assert refused(TOOL_CALL, {**CALL, "computer": "nobody"}, in_flight=100)[0] == 4
