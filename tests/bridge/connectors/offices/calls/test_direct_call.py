"""Checks and texts of direct calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.calls.direct_call import (
    DirectCall,
    check_call,
    list_names,
    shown_caller,
    suggestion,
    tools_request,
    why_no_computer,
)
from bridge.connectors.offices.protocol.events import TOOL_CALL, is_name
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Join, Member, OfficeMembership, Rejection
from bridge.connectors.offices.protocol.relay import Refusal, RelayRequest

ALICE = "@alice:example.org"


def offices() -> OfficeMembership:
    found = OfficeMembership()
    for sid, role, name, office_id in (
        ("a1", AGENT, "boss", "a"),
        ("c1", COMPUTER, "hands", "a"),
        ("c2", COMPUTER, "eyes", "a"),
        ("c3", COMPUTER, "barrel", "b"),
    ):
        effects = found.decide(sid, Join(role, name, office_id))
        assert not isinstance(effects, Rejection)
        found.apply(sid, effects)
    return found


def call(**changed: Any) -> DirectCall:
    known: dict[str, Any] = {
        "call_id": "direct-1", "office_id": "a", "computer": "hands", "tool_name": "add", "params": {"a": 1},
        "timeout": 7, "by": ALICE,
    }  # fmt: skip
    return DirectCall(**{**known, **changed})


def checked(in_flight: int = 0, **changed: Any) -> Refusal | RelayRequest:
    return check_call(call(**changed), offices(), in_flight=in_flight, max_in_flight=2)


def test_a_direct_call_is_relayed_like_an_agents_call() -> None:
    """With the requester in the Agent's place, and with its id in the call log."""
    relay = checked()
    assert isinstance(relay, RelayRequest)
    assert (relay.event.name, relay.target.sid, relay.deadline, relay.call_id) == (TOOL_CALL, "c1", 12, "direct-1")
    assert relay.payload == {
        "agent": ALICE, "req_id": "direct-1", "computer": "hands", "tool_name": "add", "params": {"a": 1},
        "timeout": 7,
    }  # fmt: skip
    assert (relay.caller.name, relay.caller.office_id) == (ALICE, "a")


@pytest.mark.parametrize(
    ("changed", "rule", "code"),
    [
        ({"tool_name": ""}, 1, 400),
        ({"params": [1]}, 1, 400),
        ({"timeout": 0}, 1, 400),
        ({"timeout": 3601}, 1, 400),
        ({"computer": "nobody"}, 4, 404),
        ({"computer": "barrel"}, 4, 404),
        ({"computer": "boss"}, 4, 404),
        ({"office_id": "c"}, 4, 404),
        ({"in_flight": 2}, 7, 429),
    ],
)
def test_an_impossible_call_is_refused(changed: dict[str, Any], rule: int, code: int) -> None:
    """By the checks of a relay that concern the call, in their order."""
    refusal = checked(**changed)
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, refusal.answer["code"]) == (rule, code)


def test_requesters_are_no_connections() -> None:
    """The calls of one requester count together, in all offices. No connection id contains a space."""
    assert call().caller.sid == call(office_id="b").caller.sid != call(by="bob").caller.sid
    assert " " in call().caller.sid


def test_a_request_for_tools() -> None:
    """Only for a Computer that is in the office."""
    relay = tools_request("a", "hands", ALICE, "r", offices(), 5.0)
    assert relay is not None
    assert relay.payload == {"agent": ALICE, "req_id": "r", "computer": "hands"}
    assert relay.call_id == ""
    assert tools_request("a", "boss", ALICE, "r", offices(), 5.0) is None


@pytest.mark.parametrize(
    ("office_id", "computer", "sentence"),
    [
        ("a", "hands", None),
        ("a", "hnds", "There is no Computer hnds in the office a. Did you mean hands? There are eyes, hands."),
        ("a", "zzz", "There is no Computer zzz in the office a. There are eyes, hands."),
        ("a", "boss", "boss is the Agent of the office a: only Computers have tools."),
        ("b", "zzz", "There is no Computer zzz in the office b. There is barrel."),
        ("kitchn", "pan", "The office kitchn has no members. Did you mean kitchen?"),
        ("kitchen", "pan", "There is no Computer in the office kitchen."),
        ("x\x1b[31m", "pan", "The office x has no members."),
    ],
)
def test_why_a_computer_cannot_be_called(office_id: str, computer: str, sentence: str | None) -> None:
    """With a suggestion for a similar name."""
    members = [*offices().all(), Member("a2", AGENT, "cook", "kitchen")]
    assert why_no_computer(members, office_id, computer) == sentence


def test_long_lists_of_names_are_shortened() -> None:
    assert list_names(["b", "a"]) == "There are a, b."
    assert list_names([f"{n:03}" for n in range(30)]).endswith("019 and 10 more.")
    assert suggestion("x", []) == ""


@given(st.text())
def test_every_requester_becomes_a_valid_name(by: str) -> None:
    """Addresses of other nodes may contain anything."""
    assert is_name(shown_caller(by))


@pytest.mark.parametrize("by", [ALICE, "operator@here.test", "worker-1@kitchen.local"])
def test_an_ordinary_requester_keeps_its_name(by: str) -> None:
    assert shown_caller(by) == by
