"""The texts of messages about a task."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.message import StatusReaction
from bridge.people.texts.task_texts import outcome, own_request_text, progress_text, request_text
from bridge.tasks.answer import Answer, cancelled, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import Origin, TaskKey, TaskRequest
from bridge.tasks.task import State, Task
from tests.support.agents import NOW, address

REQUEST = TaskRequest(
    key=TaskKey("kitchen", "req-1"),
    task_id="task-1",
    from_address=address("coordinator@kitchen"),
    to_address=address("worker@here"),
    prompt="Peel <b>the</b> potatoes",
    origin=Origin("cis"),
)


def ended(answer: Answer, **changed: Any) -> Task:
    return Task(replace(REQUEST, **changed), NOW, NOW + 1, state=State.DONE, finished_at=NOW + 90_000, answer=answer)


# ---- the request -------------------------------------------------------------------------------------


def test_the_request_is_shown() -> None:
    """The prompt is shown as text, without interpreting HTML."""
    text = request_text(Task(REQUEST, NOW, NOW + 1), StatusReaction.WAITING, "here")
    assert text.plain == "⏳ coordinator@kitchen asks worker@here (task-1):\nPeel <b>the</b> potatoes"
    assert str(text.html) == (
        "⏳ <code>coordinator@kitchen</code> asks <code>worker@here</code> (<code>task-1</code>):"
        "<blockquote>Peel &lt;b&gt;the&lt;/b&gt; potatoes</blockquote>"
    )


def test_a_request_in_a_persons_name_mentions_the_agent() -> None:
    """If the agent has a user."""
    asked = Task(REQUEST, NOW, NOW + 1)
    text = own_request_text(asked, "@worker:here")
    assert text.plain == "worker: Peel <b>the</b> potatoes"
    assert str(text.html) == (
        '<a href="https://matrix.to/#/@worker:here">worker</a>: Peel &lt;b&gt;the&lt;/b&gt; potatoes'
    )
    assert own_request_text(asked, None).plain == "worker@here: Peel <b>the</b> potatoes"


def test_the_duration_is_shown() -> None:
    """After the end."""
    text = request_text(ended(Answer(True, "", 0)), StatusReaction.DONE, "here")
    assert text.plain.startswith("✅ coordinator@kitchen asks worker@here (task-1, 1 min 30 s):")
    at_once = replace(ended(Answer(True, "", 0)), finished_at=NOW + 999)
    text = request_text(at_once, StatusReaction.DONE, "here")
    assert text.plain.startswith("✅ coordinator@kitchen asks worker@here (task-1):")


def test_a_person_is_shown_by_the_user_id() -> None:
    """An agent with the same address is not."""
    asked = replace(REQUEST, from_address=address("alice:there@here"))
    assert "⏳ alice:there@here asks" in request_text(Task(asked, NOW, NOW + 1), StatusReaction.WAITING, "here").plain
    asked = replace(asked, origin=Origin("people"))
    assert "⏳ @alice:there asks" in request_text(Task(asked, NOW, NOW + 1), StatusReaction.WAITING, "here").plain


def test_a_long_prompt_is_folded() -> None:
    """It can be unfolded; a very long prompt is cut."""
    asked = replace(REQUEST, prompt="a line\n" * 100)
    text = request_text(Task(asked, NOW, NOW + 1), StatusReaction.WAITING, "here")
    assert text.plain.count("a line") == 8
    assert text.plain.endswith(" […]")
    assert "<details><summary>Full text (700 characters)</summary>" in str(text.html)
    huge = replace(REQUEST, prompt="x" * 250_000)
    assert len(str(request_text(Task(huge, NOW, NOW + 1), StatusReaction.WAITING, "here").html)) < 6_000


def test_names_are_cleaned() -> None:
    """Remote users choose them."""
    asked = replace(REQUEST, task_id="t\n\u202e" + "x" * 300, from_address=address("a\n</code>@kitchen"))
    text = request_text(Task(asked, NOW, NOW + 1), StatusReaction.WAITING, "here")
    assert text.plain.split("\n")[0].startswith("⏳ a </code>@kitchen asks worker@here (t x")
    assert "</code>@" not in str(text.html)


# ---- what it result to ---------------------------------------------------------------------------------


def test_an_answer_is_the_agents_output() -> None:
    """Formatted, without additions."""
    result = outcome(ended(Answer(True, "**Done**", 0)))
    assert result.is_of_agent
    assert (result.text.plain, str(result.text.html)) == ("**Done**", "<p><strong>Done</strong></p>")


@pytest.mark.parametrize("code", ErrorCode)
def test_an_error_has_its_code_and_advice(code: ErrorCode) -> None:
    """As a message of the node."""
    error = TaskError(code, "So it is.", {"candidates": ["worker@garden", 7, "a<b>@c"]})
    result = outcome(ended(failure(error)))
    assert not result.is_of_agent
    assert result.text.plain.startswith("❌ worker@here ")
    for part in (f"({code.value})", "So it is.", "Did you mean worker@garden, a<b>@c?", code.advice):
        assert part in result.text.plain
    assert f"<code>{code.value}</code>" in str(result.text.html)
    assert "<b>" not in str(result.text.html)


def test_a_failed_command_shows_its_output() -> None:
    """With the exit code and the last error output."""
    result = outcome(ended(Answer(False, "no such file", 2)))
    assert result.is_of_agent
    assert result.text.plain == (
        "❌ Failed with exit code 2.\n\nno such file\n\nReply to this message to continue, or send a new request."
    )
    result = outcome(ended(Answer(False, "half", 2, {"stderr": "line\n" * 50 + "<b>no</b> flour\x1b[0m\n"})))
    assert "\n\nhalf\n\nLast error output:\nline\nline\n" in result.text.plain
    assert result.text.plain.count("line\n") == 11
    assert "line\n&lt;b&gt;no&lt;/b&gt; flour</code></pre><p><em>Reply" in str(result.text.html)


@pytest.mark.parametrize("text", ["no flour\n", "", " \n", 7, None, {}])
def test_error_output_equal_to_the_answer_is_not_repeated(text: Any) -> None:
    """What failed and has no output is answered with what it text relate_to_request it."""
    result = outcome(ended(Answer(False, "no flour", 1, {"stderr": text})))
    assert "Last error output" not in result.text.plain


def test_a_killed_command_shows_the_reason() -> None:
    """By whom it was."""
    killed = outcome(ended(Answer(False, "", 137, {"signal": "SIGKILL"})))
    assert killed.text.plain.startswith("❌ Failed with exit code 137 (SIGKILL).\n\nThere is no output.")
    flooded = outcome(ended(Answer(False, "x", 1, {"ended": "It wrote <b>without</b> end."})))
    assert flooded.text.plain.startswith("❌ Failed with exit code 1. It wrote <b>without</b> end.\n")
    assert "<b>" not in str(flooded.text.html)


def test_a_command_that_could_not_start_is_for_the_administrator() -> None:
    """The requester cannot correct it."""
    result = outcome(ended(Answer(False, "The command was not found.", 127, {"not_started": True})))
    assert not result.is_of_agent
    assert result.text.plain == (
        "❌ worker@here could not start (exit code 127). The command was not found."
        " Please tell the administrator of here."
    )
    assert "<code>worker@here</code>" in str(result.text.html)


def test_an_interrupted_task_is_not_restarted() -> None:
    """The message says so."""
    error = TaskError(ErrorCode.NODE_UNREACHABLE, "The process has ended.", {"interrupted": True})
    result = outcome(ended(failure(error)))
    assert result.text.plain == (
        "❌ worker@here was interrupted (NODE_UNREACHABLE). The process has ended. The task is not"
        " restarted automatically: send the request again if you still need it."
    )


def test_a_timeout_shows_the_output_so_far() -> None:
    """Helps whoever asks again."""
    error = TaskError(ErrorCode.TIMEOUT, "It was ended.", {"output": "a *half*\n", "stderr": "peeling\n"})
    result = outcome(ended(failure(error)))
    assert "Output so far:\na *half*\n\nLast error output:\npeeling" in result.text.plain
    assert "<pre><code>a *half*</code></pre>" in str(result.text.html)


def test_a_cancellation_names_the_person_and_the_reason() -> None:
    """By whom, and why."""
    result = outcome(ended(cancelled("@alice:there", "too late")))
    assert (result.text.plain, result.is_of_agent) == ("❌ Cancelled by @alice:there: too late", False)


def test_missing_output_is_mentioned() -> None:
    """And so is output that was cut."""
    assert outcome(ended(Answer(True, " \n", 0))).text.plain == "Done. There is no output."
    assert "There is no output." in outcome(ended(Answer(False, "", 1))).text.plain
    cut = outcome(ended(Answer(True, "x", 0, {"output_truncated": True})))
    assert cut.text.plain.endswith("(The output was too long and has been cut.)")


def test_a_long_answer_is_a_file() -> None:
    """Its name is that of the task."""
    result = outcome(ended(Answer(True, "line\n" * 1_000, 0), task_id="../t"))
    assert result.file is not None
    assert result.file.name == "t.txt"


# ---- progress ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "plain", "html"),
    [
        ({"message": "peeling <b>"}, "peeling <b>", "peeling &lt;b&gt;"),
        ({"text": "a\nb", "percent": 50}, "50 % a b", "<strong>50 %</strong> a b"),
        ({"progress": 0.25}, "25 %", "<strong>25 %</strong> "),
        ({"percent": 1}, "1 %", "<strong>1 %</strong> "),
        ({"percent": True, "n": 1}, '{"percent":true,"n":1}', None),
        ({"percent": 200}, '{"percent":200}', None),
        ({"step": 7}, '{"step":7}', "<code>{&quot;step&quot;:7}</code>"),
        ({"status": "x" * 5_000}, "x" * 999 + "…", None),
    ],
)
def test_progress_reports_are_formatted(content: dict[str, Any], plain: str, html: str | None) -> None:
    """Known fields with text for people are preferred."""
    text = progress_text(content)
    assert text is not None
    assert text.plain == plain
    assert html is None or str(text.html) == html


def test_an_empty_report_is_not_shown() -> None:
    """Is none."""
    assert progress_text({}) is None
    assert progress_text({"n": 2**70}) is None


@given(
    st.dictionaries(
        st.sampled_from(["message", "text", "percent", "progress", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    )
)
def test_any_report_is_one_short_line(content: dict[str, Any]) -> None:
    """In one line of some length."""
    text = progress_text(content)
    assert text is None or (len(text.plain) < 1_100 and "\n" not in text.plain)
