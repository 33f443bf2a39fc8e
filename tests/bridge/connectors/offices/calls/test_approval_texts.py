"""What is said of a call that people have to approve."""

import pytest

from bridge.approvals.approval import Expired, Refused
from bridge.connectors.offices.calls.approving import (
    agent_answer,
    computer_gone,
    denied_answer,
    may_not_stop,
    taken_back,
    wish,
    withdrawn_answer,
)
from bridge.connectors.offices.protocol.errors import Flat, computer_not_found
from bridge.connectors.offices.protocol.tools import Outcome, read_result
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.masking import masked

ALICE = "@alice:here.test"
CALL = ToolCall("c1", "r1", "boss", "hands", "add", masked({"a": 1}), 5)
HOSTILE = ToolCall("c1", "r1", "<b>boss", "hands" * 99, "https://matrix.to/#/@a:b\u202e", masked({}), 5)


def test_what_people_are_told() -> None:
    """Who wants what, and why there is nothing to decide any more."""
    assert wish(CALL).plain == "boss wants add on hands"
    assert "<code>add</code>" in str(wish(CALL).html)
    assert taken_back(CALL).plain == "boss has taken it back."
    assert computer_gone(CALL).plain == "hands is gone: there is nothing to decide."


def test_what_the_agent_gets() -> None:
    """A result that has failed, with a mark that says why; for a Computer that is gone what a Computer that
    is gone always is."""
    refused = agent_answer(Refused(ALICE), 60)
    assert refused["meta"] == {"a2c_approval": "refused", "by": ALICE}
    assert refused["content"][0]["text"].startswith(f"{ALICE} has refused this call.")
    expired = agent_answer(Expired(), 60)
    assert expired["meta"] == {"a2c_approval": "expired"}
    assert "within 60 s" in expired["content"][0]["text"]
    assert denied_answer()["meta"] == {"a2c_approval": "refused"}
    assert all(answer["isError"] is True for answer in (refused, expired, denied_answer()))
    assert withdrawn_answer(CALL, is_taken_back=False) == computer_not_found("hands")
    assert withdrawn_answer(CALL, is_taken_back=True)["meta"] == {"a2c_cancelled": True}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (agent_answer(Refused(ALICE), 60), Outcome.REFUSED),
        (agent_answer(Expired(), 60), Outcome.REFUSED),
        (withdrawn_answer(CALL, is_taken_back=True), Outcome.CANCELLED),
        (withdrawn_answer(CALL, is_taken_back=False), Outcome.NOT_FOUND),
        (denied_answer(), Outcome.REFUSED),
    ],
)
def test_the_room_is_told_the_same(answer: Flat, outcome: Outcome) -> None:
    """Of what the Agent gets, its outcome can be read."""
    assert read_result(answer, "add").outcome is outcome


def test_names_are_shown_harmless() -> None:
    """Strangers have chosen them."""
    hostile = "@<i>\u202e:x.test"
    texts = [wish(HOSTILE), taken_back(HOSTILE), computer_gone(HOSTILE), may_not_stop(hostile)]
    for said in texts:
        html = str(said.html)
        assert not any(tag in html for tag in ("<b>", "<i>", "href", "\u202e"))
        assert "\u202e" not in said.plain
        assert len(said.plain) < 600
