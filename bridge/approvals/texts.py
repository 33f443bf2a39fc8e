"""What people see of a question and of its verdict."""

from typing import Final

from bridge.approvals.approval import Approved, Expired, Refused, Verdict, Withdrawn
from bridge.people.texts.text import Text, shown_name
from bridge.text.times import duration

MINUTES_FROM: Final = 120
"""Seconds."""


def question_text(question: Text, seconds: float) -> Text:
    """boss wants add on hands, and how that is answered."""
    return Text.of("❓ ") + question + Text.of(f". ✅ lets it, ❌ refuses, within {span(seconds)}.")


def verdict_text(verdict: Verdict) -> Text:
    """In the room, where the question stood."""
    match verdict:
        case Approved(by):
            return Text.of("✅ ") + shown_name(by) + Text.of(" lets it.")
        case Refused(by):
            return Text.of("❌ ") + shown_name(by) + Text.of(" refuses it.")
        case Expired():
            return Text.of("❌ Nobody has answered in time: it is refused.")
        case Withdrawn(reason):
            return Text.of("❌ ") + reason


def not_permitted(user: str, subject: str) -> Text:
    """To a person whose answer does not count. `subject` is what is decided about."""
    return shown_name(user) + Text.of(f" may not decide about this {subject}: the answer does not count.")


def span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < MINUTES_FROM else duration(round(seconds * 1000))
