"""What is said of a task: who asks whom for what, how it stands, and what it came to.

How often people are shown that something goes on: each time is an event in a room, for ever.

The longer it takes, the less often it is said anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bridge.agents.address import AgentAddress
from bridge.people.message import Sign
from bridge.people.requester import in_name_of
from bridge.people.texts.agent_output import File, agent_words
from bridge.people.texts.text import Text, beginning, cleaned, joined, one_line
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import Task
from bridge.text.times import duration
from federation.matrix.message_content import (
    Html,
    bold,
    code,
    code_block,
    details,
    italic,
    mention,
    paragraph,
    quote,
)

LONGEST_NAME: Final = 120
LONGEST_SHOWN_PROMPT: Final = 600
MOST_SHOWN_LINES: Final = 8
LONGEST_PROMPT: Final = 4_000
"""Characters of a prompt that can be unfolded."""
LONGEST_PROGRESS: Final = 1_000
LONGEST_REASON: Final = 1_000
SECOND_MS: Final = 1_000
"""What took less is done at once."""
LONGEST_LAST: Final = 1_000
MOST_LAST_LINES: Final = 12
"""Of what was said last by somebody who has failed."""

_PROGRESS_WORDS: Final = ("message", "text", "status", "description", "step", "stage")
_UNDONE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.AGENT_NOT_FOUND: "is not there",
    ErrorCode.AGENT_BUSY: "is busy",
    ErrorCode.TIMEOUT: "has taken too long",
    ErrorCode.NODE_UNREACHABLE: "cannot be reached",
    ErrorCode.INVALID_PAYLOAD: "cannot be given this",
}
_GO_ON: Final = "Answer this message to go on with it, or ask again."
_ASK_AGAIN: Final = "It is not begun again by itself: ask again if it is still wanted."


@dataclass(frozen=True, slots=True)
class Outcome:
    """`is_of_agent`: these are the agent's own words, and not what the node has to say of it."""

    text: Text
    file: File | None = None
    is_of_agent: bool = False


def name_of(address: AgentAddress) -> Text:
    shown = one_line(str(address), LONGEST_NAME)
    return Text(shown, code(shown))


def requester_name(task: Task, node_id: str) -> Text:
    """A person by the user id, which is what people know."""
    person = in_name_of(task.request, node_id)
    if person is None:
        return name_of(task.request.from_address)
    shown = one_line(person, LONGEST_NAME)
    return Text(shown, code(shown))


def request_text(task: Task, sign: Sign, node_id: str) -> Text:
    """The message that a thread begins with when no person has written one."""
    who, whom = requester_name(task, node_id), name_of(task.request.to_address)
    task_id = one_line(task.request.task_id, LONGEST_NAME)
    took = _took(task) if sign is not Sign.WAITING else ""
    prompt = cleaned(task.request.prompt[: 2 * LONGEST_PROMPT]).strip()
    return Text(
        f"{sign.emoji} {who.plain} asks {whom.plain} ({task_id}{took}):\n{_short(prompt)}",
        Html(f"{sign.emoji} ")
        + who.html
        + " asks "
        + whom.html
        + " ("
        + code(task_id)
        + f"{took}):"
        + _folded(prompt, len(task.request.prompt)),
    )


def own_request_text(task: Task, ghost: str | None) -> Text:
    """The same where it is said by the person in whose name it is asked for: as people ask."""
    agent = task.request.to_address
    name = one_line(agent.agent_id, LONGEST_NAME) if ghost is not None else name_of(agent).plain
    prompt = cleaned(task.request.prompt).strip()
    called = Html(name) if ghost is None else mention(ghost, name)
    return Text(f"{name}: {prompt}", called + f": {prompt}")


def _short(prompt: str) -> str:
    shown = beginning(prompt, MOST_SHOWN_LINES, LONGEST_SHOWN_PROMPT)
    return shown if len(shown) == len(prompt) else f"{shown} […]"


def _folded(prompt: str, characters: int) -> Html:
    """A long one is unfolded by whoever wants to read it."""
    shown = beginning(prompt, MOST_SHOWN_LINES, LONGEST_SHOWN_PROMPT)
    if len(shown) == len(prompt):
        return quote(prompt)
    whole = prompt if len(prompt) <= LONGEST_PROMPT else f"{prompt[:LONGEST_PROMPT]} […]"
    return quote(f"{shown} […]") + details(f"The whole of it ({characters} characters)", quote(whole))


def _took(task: Task) -> str:
    took = 0 if task.finished_at is None else task.finished_at - task.received_at
    return f", {duration(took)}" if took >= SECOND_MS else ""


# ---- what it came to ---------------------------------------------------------------------------------


def outcome(task: Task) -> Outcome:
    """Of a task that has ended."""
    answer = task.answer
    assert answer is not None, "it has ended"
    if answer.error_code is not None:
        return Outcome(_undone(task, answer, answer.error_code))
    if answer.metadata.get("cancelled") is True:
        return Outcome(_with_sign(Sign.FAILED, Text.of(one_line(answer.output, LONGEST_REASON))))
    if not answer.success and answer.metadata.get("not_started") is True:
        return Outcome(_not_begun(task, answer))
    return _own_words(task, answer)


def _own_words(task: Task, answer: Answer) -> Outcome:
    words = agent_words(answer.output, task.request.task_id)
    text = words.text
    if not text.plain:
        nothing = "Done, and nothing is said of it." if answer.success else "It says nothing."
        text = Text(nothing, italic(nothing))
    if answer.metadata.get("output_truncated") is True:
        cut = "(It was longer than is kept.)"
        text = Text(f"{text.plain}\n\n{cut}", text.html + paragraph(italic(cut)))
    if not answer.success:
        text = _failed(answer, text)
    return Outcome(text, words.file, is_of_agent=True)


def _failed(answer: Answer, output: Text) -> Text:
    """The exit code, all that is known, and what to do."""
    signal, ended = (_metadata_line(answer, name) for name in ("signal", "ended"))
    code_text = f"{answer.exit_code} ({signal})" if signal else f"{answer.exit_code}"
    failed = f"{Sign.FAILED.emoji} It has failed, with exit code {code_text}.{f' {ended}' if ended else ''}"
    last = _said_last(answer, "stderr", "It said last:")
    return Text(
        f"{failed}\n\n{output.plain}{last.plain}\n\n{_GO_ON}",
        paragraph(failed) + output.html + last.html + paragraph(italic(_GO_ON)),
    )


def _metadata_line(answer: Answer, name: str) -> str:
    said = answer.metadata.get(name)
    return one_line(said, LONGEST_NAME) if isinstance(said, str) else ""


def _said_last(answer: Answer, name: str, title: str) -> Text:
    """The end of what stands in the metadata, unless the answer says the same. Other nodes may have written
    anything there."""
    said = answer.metadata.get(name)
    whole = cleaned(said[-2 * LONGEST_LAST :]).strip() if isinstance(said, str) else ""
    if not whole or whole == cleaned(answer.output).strip():
        return Text.of("")
    shown = "\n".join(whole[-LONGEST_LAST:].split("\n")[-MOST_LAST_LINES:])
    return Text(f"\n\n{title}\n{shown}", paragraph(title) + code_block(shown))


def _undone(task: Task, answer: Answer, error: ErrorCode) -> Text:
    """ "Failures with their code and what to do"."""
    whom = name_of(task.request.to_address)
    is_interrupted = answer.metadata.get("interrupted") is True
    what, advice = ("was interrupted", _ASK_AGAIN) if is_interrupted else (_UNDONE[error], error.advice)
    meant = _candidates(answer)
    there = f" There is {meant}." if meant else ""
    so_far = _said_last(answer, "output", "So far there was:") + _said_last(answer, "stderr", "It said last:")
    text = Text(
        f"{whom.plain} {what} ({error.value}).{_reason(answer)}{there} {advice}{so_far.plain}",
        whom.html
        + f" {what} ("
        + code(error.value)
        + f").{_reason(answer)}{there} "
        + italic(advice)
        + so_far.html,
    )
    return _with_sign(Sign.FAILED, text)


def _not_begun(task: Task, answer: Answer) -> Text:
    """Its command could not be started: whoever asked can do nothing about it."""
    whom = name_of(task.request.to_address)
    node = one_line(task.request.to_address.node_id, LONGEST_NAME)
    said = f" could not begin (exit code {answer.exit_code}).{_reason(answer)} "
    advice = f"Tell whoever looks after {node}."
    return _with_sign(Sign.FAILED, Text(f"{whom.plain}{said}{advice}", whom.html + said + italic(advice)))


def _reason(answer: Answer) -> str:
    reason = one_line(answer.output, LONGEST_REASON)
    return f" {reason}" if reason else ""


def _candidates(answer: Answer) -> str:
    named = answer.metadata.get("candidates")
    texts = [one for one in named if isinstance(one, str)] if isinstance(named, list) else []
    return ", ".join(one_line(text, LONGEST_NAME) for text in texts[:10])


def _with_sign(sign: Sign, text: Text) -> Text:
    return Text.of(f"{sign.emoji} ") + text


# ---- while it is worked on ---------------------------------------------------------------------------


def progress_text(content: Mapping[str, Any]) -> Text | None:
    """Agents report what they like. What is meant for reading is looked for first; None when there is
    nothing."""
    said = next((one for name in _PROGRESS_WORDS if isinstance(one := content.get(name), str)), "")
    shown = one_line(said, LONGEST_PROGRESS)
    share = _share(content)
    if shown or share:
        plain = " ".join(part for part in (share, shown) if part)
        return Text(plain, joined([*([bold(share), Html(" ")] if share else []), Html(shown)]))
    try:
        as_json = orjson.dumps(dict(content)).decode()
    except TypeError:  # orjson.JSONEncodeError is a TypeError
        return None
    shown = one_line(as_json, LONGEST_PROGRESS)
    return Text(shown, code(shown)) if content else None


def _share(content: Mapping[str, Any]) -> str:
    for name in ("percent", "percentage", "progress"):
        value = content.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
            # A share of one is written as a fraction, and nobody writes 0.5 for half a percent.
            percent = value * 100 if isinstance(value, float) and value <= 1 else value
            return f"{percent:.0f} %"
    return ""


FIRST: Final = 2.0
LONGEST: Final = 60.0
GROWTH: Final = 1.2


def pause(times_shown: int) -> float:
    """Seconds to wait after it was shown so many times: some forty times in half an hour."""
    assert times_shown > 0, "the first is shown at once"
    # Beyond that it is the longest, and the power would be no float some day.
    return min(LONGEST, FIRST * GROWTH ** min(times_shown - 1, 100))
