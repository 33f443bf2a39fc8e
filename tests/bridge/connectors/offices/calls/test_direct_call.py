"""Calls by who is no Agent of the office."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.calls.direct_call import (
    DirectCall,
    ask_for_tools,
    examine_call,
    named,
    near,
    nobody_to_call,
    shown_caller,
)
from bridge.connectors.offices.protocol.events import TOOL_CALL, is_name
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Join, Member, Offices, Refused
from bridge.connectors.offices.protocol.relay import Refusal, Relay

ALICE = "@alice:example.org"


def offices() -> Offices:
    found = Offices()
    for sid, role, name, office_id in (
        ("a1", AGENT, "boss", "a"),
        ("c1", COMPUTER, "hands", "a"),
        ("c2", COMPUTER, "eyes", "a"),
        ("c3", COMPUTER, "barrel", "b"),
    ):
        effects = found.decide(sid, Join(role, name, office_id))
        assert not isinstance(effects, Refused)
        found.apply(sid, effects)
    return found


def call(**changed: Any) -> DirectCall:
    known: dict[str, Any] = {
        "call_id": "direct-1", "office_id": "a", "computer": "hands", "tool_name": "add", "params": {"a": 1},
        "timeout": 7, "by": ALICE,
    }  # fmt: skip
    return DirectCall(**{**known, **changed})


def examined(in_flight: int = 0, **changed: Any) -> Refusal | Relay:
    return examine_call(call(**changed), offices(), in_flight=in_flight, most_in_flight=2)


def test_a_call_goes_the_way_of_an_agents() -> None:
    """With whoever asks in the Agent's place, and under the id by which it is written down."""
    relay = examined()
    assert isinstance(relay, Relay)
    assert (relay.event.name, relay.target.sid, relay.deadline, relay.call_id) == (
        TOOL_CALL,
        "c1",
        12,
        "direct-1",
    )
    assert relay.said == {
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
def test_what_cannot_be_called_is_refused(changed: dict[str, Any], rule: int, code: int) -> None:
    """By the rules of a relay that are about the call, in their order."""
    refusal = examined(**changed)
    assert isinstance(refusal, Refusal)
    assert (refusal.rule, refusal.answer["code"]) == (rule, code)


def test_nobody_is_taken_for_a_connection() -> None:
    """Whoever calls is counted by himself, wherever he calls; and no connection is called so."""
    assert call().caller.sid == call(office_id="b").caller.sid != call(by="bob").caller.sid
    assert " " in call().caller.sid


def test_tools_are_asked_for() -> None:
    """Of a Computer that is there."""
    relay = ask_for_tools("a", "hands", ALICE, "r", offices(), 5.0)
    assert relay is not None
    assert relay.said == {"agent": ALICE, "req_id": "r", "computer": "hands"}
    assert relay.call_id == ""
    assert ask_for_tools("a", "boss", ALICE, "r", offices(), 5.0) is None


@pytest.mark.parametrize(
    ("office_id", "computer", "sentence"),
    [
        ("a", "hands", None),
        (
            "a",
            "hnds",
            "There is no Computer hnds in the office a. Did you mean hands? There are eyes, hands.",
        ),
        ("a", "zzz", "There is no Computer zzz in the office a. There are eyes, hands."),
        ("a", "boss", "boss is the Agent of the office a: only Computers have tools."),
        ("b", "zzz", "There is no Computer zzz in the office b. There is barrel."),
        ("kitchn", "pan", "Nobody is in the office kitchn. Did you mean kitchen?"),
        ("kitchen", "pan", "There is no Computer in the office kitchen."),
        ("x\x1b[31m", "pan", "Nobody is in the office x."),
    ],
)
def test_why_there_is_nobody_to_call(office_id: str, computer: str, sentence: str | None) -> None:
    """In a sentence, with what may have been meant."""
    members = [*offices().all(), Member("a2", AGENT, "cook", "kitchen")]
    assert nobody_to_call(members, office_id, computer) == sentence


def test_names_are_listed_up_to_some() -> None:
    assert named(["b", "a"]) == "There are a, b."
    assert named([f"{n:03}" for n in range(30)]).endswith("019 and 10 more.")
    assert near("x", []) == ""


@given(st.text())
def test_whoever_asks_can_be_shown(by: str) -> None:
    """Whatever an address of another node holds."""
    assert is_name(shown_caller(by))


@pytest.mark.parametrize("by", [ALICE, "operator@here.test", "worker-1@kitchen.local"])
def test_who_asks_is_called_as_he_is(by: str) -> None:
    assert shown_caller(by) == by
