"""What is said of a call that people have to approve."""

import pytest

from bridge.connectors.offices.approval import Drop, Ending, Expire, Let, Refuse
from bridge.connectors.offices.approval_texts import (
    agent_answer,
    denied_answer,
    denied_text,
    ending_text,
    may_not_stop,
    not_permitted,
    question,
)
from bridge.connectors.offices.call_events import ToolCall
from bridge.connectors.offices.flat_error import computer_not_found
from bridge.connectors.offices.masking import masked
from bridge.connectors.offices.tool_result import Outcome, read_result

ALICE = "@alice:here.test"
CALL = ToolCall("c1", "r1", "boss", "hands", "add", masked({"a": 1}), 5)
HOSTILE = ToolCall("c1", "r1", "<b>boss", "hands" * 99, "https://matrix.to/#/@a:b\u202e", masked({}), 5)
ENDINGS: list[Ending] = [Let(ALICE), Refuse(ALICE), Expire(), Drop(False), Drop(True)]


@pytest.mark.parametrize(("seconds", "within"), [(60.0, "60 s"), (1.5, "1.5 s"), (600.0, "10 min")])
def test_the_question(seconds: float, within: str) -> None:
    """Who wants what, and how it is answered."""
    said = question(CALL, seconds)
    assert said.plain == f"❓ boss wants add on hands. ✅ lets it, ❌ refuses, within {within}."
    assert "<code>add</code>" in str(said.html)


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (Let(ALICE), "✅ @alice:here.test lets it."),
        (Refuse(ALICE), "❌ @alice:here.test refuses it."),
        (Expire(), "❌ Nobody has answered in time: it is refused."),
        (Drop(is_computer_gone=False), "❌ boss has taken it back."),
        (Drop(is_computer_gone=True), "❌ hands is gone: there is nothing to decide."),
    ],
)
def test_how_it_has_ended(ending: Ending, said: str) -> None:
    """For the room."""
    assert ending_text(CALL, ending).plain == said


def test_what_the_agent_gets() -> None:
    """A result that has failed, with a mark that says why; for a Computer that is gone what a Computer that
    is gone always is."""
    refused = agent_answer(CALL, Refuse(ALICE), 60)
    assert refused["meta"] == {"a2c_approval": "refused", "by": ALICE}
    assert refused["content"][0]["text"].startswith(f"{ALICE} has refused this call.")
    expired = agent_answer(CALL, Expire(), 60)
    assert expired["meta"] == {"a2c_approval": "expired"}
    assert "within 60 s" in expired["content"][0]["text"]
    assert denied_answer()["meta"] == {"a2c_approval": "refused"}
    assert all(answer["isError"] is True for answer in (refused, expired, denied_answer()))
    assert agent_answer(CALL, Drop(is_computer_gone=True), 60) == computer_not_found("hands")
    assert agent_answer(CALL, Drop(is_computer_gone=False), 60)["meta"] == {"a2c_cancelled": True}


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Refuse(ALICE), Outcome.REFUSED),
        (Expire(), Outcome.REFUSED),
        (Drop(is_computer_gone=False), Outcome.CANCELLED),
        (Drop(is_computer_gone=True), Outcome.NOT_FOUND),
    ],
)
def test_the_room_is_told_the_same(ending: Refuse | Expire | Drop, outcome: Outcome) -> None:
    """Of what the Agent gets, its outcome can be read."""
    assert read_result(agent_answer(CALL, ending, 60), "add").outcome is outcome
    assert read_result(denied_answer(), "add").outcome is Outcome.REFUSED


def test_names_are_shown_harmless() -> None:
    """Strangers have chosen them."""
    hostile = "@<i>\u202e:x.test"
    texts = [
        question(HOSTILE, 60),
        *(ending_text(HOSTILE, ending) for ending in ENDINGS),
        ending_text(CALL, Let(hostile)),
        not_permitted(hostile),
        may_not_stop(hostile),
        denied_text(),
    ]
    for said in texts:
        html = str(said.html)
        assert not any(tag in html for tag in ("<b>", "<i>", "href", "\u202e"))
        assert "\u202e" not in said.plain
        assert len(said.plain) < 600
