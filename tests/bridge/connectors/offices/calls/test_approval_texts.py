"""Texts about calls that need approval."""

import pytest

from bridge.approvals.approval import Expired, Refused
from bridge.connectors.offices.calls.approvals import (
    cancelled_text,
    computer_left_text,
    denied_answer,
    not_permitted_text,
    question_text,
    refusal_answer,
    withdrawn_answer,
)
from bridge.connectors.offices.protocol.errors import Ack, computer_not_found
from bridge.connectors.offices.protocol.tools import Outcome, read_result
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.masking import masked

ALICE = "@alice:here.test"
CALL = ToolCall("c1", "r1", "boss", "hands", "add", masked({"a": 1}), 5)
HOSTILE = ToolCall("c1", "r1", "<b>boss", "hands" * 99, "https://matrix.to/#/@a:b\u202e", masked({}), 5)


def test_texts_for_people() -> None:
    """The question, and why no decision is needed any more."""
    assert question_text(CALL).plain == "boss wants to call add on hands"
    assert "<code>add</code>" in str(question_text(CALL).html)
    assert "boss" in cancelled_text(CALL).plain
    assert "hands" in computer_left_text(CALL).plain


def test_answers_to_the_agent() -> None:
    """A failed result with a mark that gives the reason. If the Computer has left, the error is that for an
    unknown Computer."""
    refused = refusal_answer(Refused(ALICE), 60)
    assert refused["meta"] == {"a2c_approval": "refused", "by": ALICE}
    assert refused["content"][0]["text"].startswith(f"{ALICE} has refused this call.")
    expired = refusal_answer(Expired(), 60)
    assert expired["meta"] == {"a2c_approval": "expired"}
    assert "within 60 s" in expired["content"][0]["text"]
    assert denied_answer()["meta"] == {"a2c_approval": "refused"}
    assert all(answer["isError"] is True for answer in (refused, expired, denied_answer()))
    assert withdrawn_answer(CALL, is_cancelled=False) == computer_not_found("hands")
    assert withdrawn_answer(CALL, is_cancelled=True)["meta"] == {"a2c_cancelled": True}


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (refusal_answer(Refused(ALICE), 60), Outcome.REFUSED),
        (refusal_answer(Expired(), 60), Outcome.REFUSED),
        (withdrawn_answer(CALL, is_cancelled=True), Outcome.CANCELLED),
        (withdrawn_answer(CALL, is_cancelled=False), Outcome.NOT_FOUND),
        (denied_answer(), Outcome.REFUSED),
    ],
)
def test_the_room_shows_the_same_outcome(answer: Ack, outcome: Outcome) -> None:
    """It can be read from the answer to the Agent."""
    assert read_result(answer, "add").outcome is outcome


def test_names_cannot_inject_markup() -> None:
    """They are chosen by strangers."""
    hostile = "@<i>\u202e:x.test"
    texts = [question_text(HOSTILE), cancelled_text(HOSTILE), computer_left_text(HOSTILE), not_permitted_text(hostile)]
    for message in texts:
        html = str(message.html)
        assert not any(tag in html for tag in ("<b>", "<i>", "href", "\u202e"))
        assert "\u202e" not in message.plain
        assert len(message.plain) < 600
