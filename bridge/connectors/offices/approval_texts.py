"""What is said of a call that people have to approve: to them, and to the Agent that waits for it."""

from typing import Final

from bridge.connectors.offices.approval import Drop, Ending, Expire, Let, Refuse
from bridge.connectors.offices.call_events import ToolCall, call_words, shown_name
from bridge.connectors.offices.flat_error import Flat, computer_not_found, result_error
from bridge.people.cleaning import one_line
from bridge.people.text import Text
from bridge.time_text import duration

MARK: Final = "a2c_approval"
"""In the `meta` of a result: why there is none of the tool."""
LONGEST_USER: Final = 255
MINUTES_FROM: Final = 120
"""Seconds."""


def question(call: ToolCall, seconds: float) -> Text:
    """boss wants add on hands."""
    how = f". ✅ lets it, ❌ refuses, within {_span(seconds)}."
    return Text.of("❓ ") + call_words(call, "wants") + Text.of(how)


def ending_text(call: ToolCall, ending: Ending) -> Text:
    """In the room, where the question stood."""
    match ending:
        case Let(by):
            return Text.of("✅ ") + shown_name(by) + Text.of(" lets it.")
        case Refuse(by):
            return Text.of("❌ ") + shown_name(by) + Text.of(" refuses it.")
        case Expire():
            return Text.of("❌ Nobody has answered in time: it is refused.")
        case Drop(is_computer_gone=True):
            return (
                Text.of("❌ ") + shown_name(call.computer) + Text.of(" is gone: there is nothing to decide.")
            )
        case Drop():
            return Text.of("❌ ") + shown_name(call.agent) + Text.of(" has taken it back.")


def not_permitted(user: str) -> Text:
    """To somebody whose answer does not count."""
    return shown_name(user) + Text.of(" may not decide about this call: the answer does not count.")


def may_not_stop(user: str) -> Text:
    """To somebody who would take back a call that is under way."""
    return shown_name(user) + Text.of(' may not stop this call: that takes the permission "administer".')


def denied_text() -> Text:
    """Where nobody is asked."""
    return Text.of("❌ The rules of this node refuse this call.")


# -- to the Agent --


def agent_answer(call: ToolCall, ending: Refuse | Expire | Drop, seconds: float) -> Flat:
    """In place of what the tool would have said: models read the text, programs the mark."""
    match ending:
        case Refuse(by):
            user = one_line(by, LONGEST_USER)
            said = f"{user} has refused this call. Do not make it again unless you are told to."
            return result_error(said, **{MARK: "refused", "by": user})
        case Expire():
            said = f"This call needs somebody's approval, and nobody has answered within {_span(seconds)}."
            return result_error(said, **{MARK: "expired"})
        case Drop(is_computer_gone=True):
            return computer_not_found(call.computer)
        case Drop():
            return result_error("The call was taken back before anybody had approved it.", a2c_cancelled=True)


def denied_answer() -> Flat:
    """Of a call that the configuration refuses: nobody has been asked."""
    return result_error("The rules of this node refuse this call.", **{MARK: "refused"})


def _span(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < MINUTES_FROM else duration(round(seconds * 1000))
