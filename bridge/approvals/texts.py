"""The texts of questions for approval and of their verdicts."""

from typing import Final

from bridge.approvals.approval import Approved, Expired, Refused, Verdict, Withdrawn
from bridge.people.texts.text import Text, format_name
from bridge.text.times import duration

MINUTES_FROM: Final = 120
"""Seconds from which a time span is shown in minutes."""


def question_text(question: Text, seconds: float) -> Text:
    """The question and how to answer it: ❓ boss wants add on hands. React with …"""
    return Text.of("❓ ") + question + Text.of(f". React with ✅ to approve or ❌ to refuse within {span(seconds)}.")


def verdict_text(verdict: Verdict) -> Text:
    """The notice that follows a question."""
    match verdict:
        case Approved(by):
            return Text.of("✅ ") + format_name(by) + Text.of(" has approved this.")
        case Refused(by):
            return Text.of("❌ ") + format_name(by) + Text.of(" has refused this.")
        case Expired():
            return Text.of("❌ Nobody has answered in time, so this is refused.")
        case Withdrawn(reason):
            return Text.of("❌ ") + reason


def not_permitted(user: str, subject: str) -> Text:
    """The notice for a person who is not an approver. `subject` names what is decided about."""
    return format_name(user) + Text.of(f" may not decide about this {subject}, so the answer does not count.")


def span(seconds: float) -> str:
    """A number of seconds as text."""
    return f"{seconds:g} s" if seconds < MINUTES_FROM else duration(round(seconds * 1000))
