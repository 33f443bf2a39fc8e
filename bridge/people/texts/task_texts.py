"""The texts of messages about a task: its request, its progress and its outcome.

Progress is shown less often the longer a task takes, because every update is a permanent event in the room.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from bridge.agents.address import AgentAddress
from bridge.people.message import StatusReaction
from bridge.people.requester import requesting_person
from bridge.people.texts.agent_output import OutputFile, format_output
from bridge.people.texts.text import Text, beginning, clean, concatenate, one_line
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import Task
from bridge.text.times import duration
from federation.matrix.message_content import Html, bold, code, code_block, details, italic, mention, paragraph, quote

LONGEST_NAME: Final = 120
LONGEST_SHOWN_PROMPT: Final = 600
MAX_SHOWN_LINES: Final = 8
LONGEST_PROMPT: Final = 4_000
"""Maximum characters of a prompt that can be unfolded."""
LONGEST_PROGRESS: Final = 1_000
LONGEST_REASON: Final = 1_000
SECOND_MS: Final = 1_000
"""Shorter durations are not shown."""
LONGEST_TAIL: Final = 1_000
MAX_TAIL_LINES: Final = 12
"""Maximum characters and lines of the last output that is shown for a failed task."""

_PROGRESS_FIELDS: Final = ("message", "text", "status", "description", "step", "stage")
_ERRORS: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.AGENT_NOT_FOUND: "was not found",
    ErrorCode.AGENT_BUSY: "is busy",
    ErrorCode.TIMEOUT: "took too long",
    ErrorCode.NODE_UNREACHABLE: "cannot be reached",
    ErrorCode.INVALID_PAYLOAD: "cannot process this request",
}
_CONTINUE: Final = "Reply to this message to continue, or send a new request."
_SEND_AGAIN: Final = "The task is not restarted automatically: send the request again if you still need it."


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a task. `is_of_agent` is true for the agent's own output, false for a message of the
    node."""

    text: Text
    file: OutputFile | None = None
    is_of_agent: bool = False


def name_of(address: AgentAddress) -> Text:
    shown = one_line(str(address), LONGEST_NAME)
    return Text(shown, code(shown))


def requester_name(task: Task, node_id: str) -> Text:
    """The name of the requester. A person is shown by the Matrix user id, not by the address."""
    person = requesting_person(task.request, node_id)
    if person is None:
        return name_of(task.request.from_address)
    shown = one_line(person, LONGEST_NAME)
    return Text(shown, code(shown))


def request_text(task: Task, status: StatusReaction, node_id: str) -> Text:
    """The first message of a thread whose task was not requested in a room."""
    requester, agent = requester_name(task, node_id), name_of(task.request.to_address)
    task_id = one_line(task.request.task_id, LONGEST_NAME)
    took = _took(task) if status is not StatusReaction.WAITING else ""
    prompt = clean(task.request.prompt[: 2 * LONGEST_PROMPT]).strip()
    return Text(
        f"{status.emoji} {requester.plain} asks {agent.plain} ({task_id}{took}):\n{_short(prompt)}",
        Html(f"{status.emoji} ")
        + requester.html
        + " asks "
        + agent.html
        + " ("
        + code(task_id)
        + f"{took}):"
        + _folded(prompt, len(task.request.prompt)),
    )


def own_request_text(task: Task, ghost: str | None) -> Text:
    """The same message if it is sent in a person's name: like a request that the person has written."""
    agent = task.request.to_address
    name = one_line(agent.agent_id, LONGEST_NAME) if ghost is not None else name_of(agent).plain
    prompt = clean(task.request.prompt).strip()
    pill = Html(name) if ghost is None else mention(ghost, name)
    return Text(f"{name}: {prompt}", pill + f": {prompt}")


def _short(prompt: str) -> str:
    shown = beginning(prompt, MAX_SHOWN_LINES, LONGEST_SHOWN_PROMPT)
    return shown if len(shown) == len(prompt) else f"{shown} […]"


def _folded(prompt: str, characters: int) -> Html:
    """Quote the prompt. A long prompt can be unfolded."""
    shown = beginning(prompt, MAX_SHOWN_LINES, LONGEST_SHOWN_PROMPT)
    if len(shown) == len(prompt):
        return quote(prompt)
    whole = prompt if len(prompt) <= LONGEST_PROMPT else f"{prompt[:LONGEST_PROMPT]} […]"
    return quote(f"{shown} […]") + details(f"Full text ({characters} characters)", quote(whole))


def _took(task: Task) -> str:
    took = 0 if task.finished_at is None else task.finished_at - task.received_at
    return f", {duration(took)}" if took >= SECOND_MS else ""


# ---- outcome -----------------------------------------------------------------------------------------


def outcome(task: Task) -> Outcome:
    """The outcome of a task that has ended."""
    answer = task.answer
    assert answer is not None, "a task that has ended has an answer"
    if answer.error_code is not None:
        return Outcome(_error(task, answer, answer.error_code))
    if answer.metadata.get("cancelled") is True:
        text = Text.of(one_line(answer.output, LONGEST_REASON))
        return Outcome(_with_status(StatusReaction.FAILED, text))
    if not answer.success and answer.metadata.get("not_started") is True:
        return Outcome(_not_started(task, answer))
    return _agent_output(task, answer)


def _agent_output(task: Task, answer: Answer) -> Outcome:
    output = format_output(answer.output, task.request.task_id)
    text = output.text
    if not text.plain:
        empty = "Done. There is no output." if answer.success else "There is no output."
        text = Text(empty, italic(empty))
    if answer.metadata.get("output_truncated") is True:
        cut = "(The output was too long and has been cut.)"
        text = Text(f"{text.plain}\n\n{cut}", text.html + paragraph(italic(cut)))
    if not answer.success:
        text = _failed(answer, text)
    return Outcome(text, output.file, is_of_agent=True)


def _failed(answer: Answer, output: Text) -> Text:
    """The exit code, the output, and what to do."""
    signal, ended = (_metadata_line(answer, name) for name in ("signal", "ended"))
    code_text = f"{answer.exit_code} ({signal})" if signal else f"{answer.exit_code}"
    failed = f"{StatusReaction.FAILED.emoji} Failed with exit code {code_text}.{f' {ended}' if ended else ''}"
    tail = _tail(answer, "stderr", "Last error output:")
    return Text(
        f"{failed}\n\n{output.plain}{tail.plain}\n\n{_CONTINUE}",
        paragraph(failed) + output.html + tail.html + paragraph(italic(_CONTINUE)),
    )


def _metadata_line(answer: Answer, name: str) -> str:
    value = answer.metadata.get(name)
    return one_line(value, LONGEST_NAME) if isinstance(value, str) else ""


def _tail(answer: Answer, name: str, title: str) -> Text:
    """The end of a text in the metadata, unless it is the same as the answer. Remote nodes may send any
    value."""
    value = answer.metadata.get(name)
    whole = clean(value[-2 * LONGEST_TAIL :]).strip() if isinstance(value, str) else ""
    if not whole or whole == clean(answer.output).strip():
        return Text.of("")
    shown = "\n".join(whole[-LONGEST_TAIL:].split("\n")[-MAX_TAIL_LINES:])
    return Text(f"\n\n{title}\n{shown}", paragraph(title) + code_block(shown))


def _error(task: Task, answer: Answer, error: ErrorCode) -> Text:
    """ "Failures with their code and what to do"."""
    agent = name_of(task.request.to_address)
    is_interrupted = answer.metadata.get("interrupted") is True
    problem, advice = ("was interrupted", _SEND_AGAIN) if is_interrupted else (_ERRORS[error], error.advice)
    candidates = _candidates(answer)
    hint = f" Did you mean {candidates}?" if candidates else ""
    tail = _tail(answer, "output", "Output so far:") + _tail(answer, "stderr", "Last error output:")
    text = Text(
        f"{agent.plain} {problem} ({error.value}).{_reason(answer)}{hint} {advice}{tail.plain}",
        agent.html + f" {problem} (" + code(error.value) + f").{_reason(answer)}{hint} " + italic(advice) + tail.html,
    )
    return _with_status(StatusReaction.FAILED, text)


def _not_started(task: Task, answer: Answer) -> Text:
    """The agent's command could not be started. Only the node's administrator can correct that."""
    agent = name_of(task.request.to_address)
    node = one_line(task.request.to_address.node_id, LONGEST_NAME)
    problem = f" could not start (exit code {answer.exit_code}).{_reason(answer)} "
    advice = f"Please tell the administrator of {node}."
    text = Text(f"{agent.plain}{problem}{advice}", agent.html + problem + italic(advice))
    return _with_status(StatusReaction.FAILED, text)


def _reason(answer: Answer) -> str:
    reason = one_line(answer.output, LONGEST_REASON)
    return f" {reason}" if reason else ""


def _candidates(answer: Answer) -> str:
    named = answer.metadata.get("candidates")
    texts = [address for address in named if isinstance(address, str)] if isinstance(named, list) else []
    return ", ".join(one_line(text, LONGEST_NAME) for text in texts[:10])


def _with_status(status: StatusReaction, text: Text) -> Text:
    return Text.of(f"{status.emoji} ") + text


# ---- progress ----------------------------------------------------------------------------------------


def progress_text(content: Mapping[str, Any]) -> Text | None:
    """The text of a progress report, which may have any fields. Known fields with text for people are
    preferred, otherwise the JSON is shown. Return None for an empty report."""
    message = next((value for name in _PROGRESS_FIELDS if isinstance(value := content.get(name), str)), "")
    shown = one_line(message, LONGEST_PROGRESS)
    percentage = _percentage(content)
    if shown or percentage:
        plain = " ".join(part for part in (percentage, shown) if part)
        html = concatenate([*([bold(percentage), Html(" ")] if percentage else []), Html(shown)])
        return Text(plain, html)
    try:
        as_json = orjson.dumps(dict(content)).decode()
    except TypeError:  # orjson.JSONEncodeError is a TypeError
        return None
    shown = one_line(as_json, LONGEST_PROGRESS)
    return Text(shown, code(shown)) if content else None


def _percentage(content: Mapping[str, Any]) -> str:
    for name in ("percent", "percentage", "progress"):
        value = content.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 100:
            # A float up to 1 is a fraction; half a percent is not a plausible value.
            percent = value * 100 if isinstance(value, float) and value <= 1 else value
            return f"{percent:.0f} %"
    return ""


FIRST: Final = 2.0
LONGEST: Final = 60.0
GROWTH: Final = 1.2


def pause(times_shown: int) -> float:
    """Return the seconds until the next update: about forty updates in half an hour."""
    assert times_shown > 0, "the first progress is shown at once"
    # Larger exponents result in LONGEST too, and would overflow finally.
    return min(LONGEST, FIRST * GROWTH ** min(times_shown - 1, 100))
