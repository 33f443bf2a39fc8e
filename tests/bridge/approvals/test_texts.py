"""The texts of questions for approval and verdicts."""

import pytest

from bridge.approvals.approval import Approved, Expired, Refused, Verdict, Withdrawn
from bridge.approvals.texts import not_permitted, question_text, verdict_text
from bridge.people.texts.text import Text, format_name

ALICE = "@alice:here.test"


@pytest.mark.parametrize(("seconds", "within"), [(60.0, "60 s"), (1.5, "1.5 s"), (600.0, "10 min")])
def test_the_question_explains_how_to_answer(seconds: float, within: str) -> None:
    """With the time for an answer."""
    said = question_text(Text.of("boss wants ") + format_name("add"), seconds)
    assert said.plain == f"❓ boss wants add. React with ✅ to approve or ❌ to refuse within {within}."
    assert "<code>add</code>" in str(said.html)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Approved(ALICE), "✅ @alice:here.test has approved this."),
        (Refused(ALICE), "❌ @alice:here.test has refused this."),
        (Expired(), "❌ Nobody has answered in time, so this is refused."),
        (Withdrawn(Text.of("boss has taken it back.")), "❌ boss has taken it back."),
    ],
)
def test_the_text_of_a_verdict(verdict: Verdict, said: str) -> None:
    """Where the question stood."""
    assert verdict_text(verdict).plain == said


def test_names_are_cleaned() -> None:
    """Remote users choose them."""
    hostile = "@<i>\u202e:x.test"
    for said in (verdict_text(Approved(hostile)), verdict_text(Refused(hostile)), not_permitted(hostile, "call")):
        assert "<i>" not in str(said.html)
        assert "\u202e" not in said.plain + str(said.html)
        assert len(said.plain) < 600
