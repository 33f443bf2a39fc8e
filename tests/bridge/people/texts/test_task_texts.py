"""What is said of a task."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.message import Sign
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
    return Task(
        replace(REQUEST, **changed), NOW, NOW + 1, state=State.DONE, finished_at=NOW + 90_000, answer=answer
    )


# ---- the request -------------------------------------------------------------------------------------


def test_who_asks_whom_for_what() -> None:
    """What is asked is shown as text, whatever is in it."""
    said = request_text(Task(REQUEST, NOW, NOW + 1), Sign.WAITING, "here")
    assert said.plain == "⏳ coordinator@kitchen asks worker@here (task-1):\nPeel <b>the</b> potatoes"
    assert str(said.html) == (
        "⏳ <code>coordinator@kitchen</code> asks <code>worker@here</code> (<code>task-1</code>):"
        "<blockquote>Peel &lt;b&gt;the&lt;/b&gt; potatoes</blockquote>"
    )


def test_a_person_asks_as_people_do() -> None:
    """By the agent's name, which calls it where it has a user."""
    asked = Task(REQUEST, NOW, NOW + 1)
    said = own_request_text(asked, "@worker:here")
    assert said.plain == "worker: Peel <b>the</b> potatoes"
    assert str(said.html) == (
        '<a href="https://matrix.to/#/@worker:here">worker</a>: Peel &lt;b&gt;the&lt;/b&gt; potatoes'
    )
    assert own_request_text(asked, None).plain == "worker@here: Peel <b>the</b> potatoes"


def test_how_long_it_took() -> None:
    """Once it has ended."""
    said = request_text(ended(Answer(True, "", 0)), Sign.DONE, "here")
    assert said.plain.startswith("✅ coordinator@kitchen asks worker@here (task-1, 1 min 30 s):")
    at_once = replace(ended(Answer(True, "", 0)), finished_at=NOW + 999)
    said = request_text(at_once, Sign.DONE, "here")
    assert said.plain.startswith("✅ coordinator@kitchen asks worker@here (task-1):")


def test_a_person_is_called_by_the_user_id() -> None:
    """An agent with such an address is not."""
    asked = replace(REQUEST, from_address=address("alice:there@here"))
    assert "⏳ alice:there@here asks" in request_text(Task(asked, NOW, NOW + 1), Sign.WAITING, "here").plain
    asked = replace(asked, origin=Origin("people"))
    assert "⏳ @alice:there asks" in request_text(Task(asked, NOW, NOW + 1), Sign.WAITING, "here").plain


def test_a_long_prompt_is_folded() -> None:
    """Its beginning is seen, and it can be unfolded; one that is longer still is cut."""
    asked = replace(REQUEST, prompt="a line\n" * 100)
    said = request_text(Task(asked, NOW, NOW + 1), Sign.WAITING, "here")
    assert said.plain.count("a line") == 8
    assert said.plain.endswith(" […]")
    assert "<details><summary>The whole of it (700 characters)</summary>" in str(said.html)
    huge = replace(REQUEST, prompt="x" * 250_000)
    assert len(str(request_text(Task(huge, NOW, NOW + 1), Sign.WAITING, "here").html)) < 6_000


def test_names_cannot_hide_anything() -> None:
    """Whatever others have chosen for them."""
    asked = replace(REQUEST, task_id="t\n\u202e" + "x" * 300, from_address=address("a\n</code>@kitchen"))
    said = request_text(Task(asked, NOW, NOW + 1), Sign.WAITING, "here")
    assert said.plain.split("\n")[0].startswith("⏳ a </code>@kitchen asks worker@here (t x")
    assert "</code>@" not in str(said.html)


# ---- what it came to ---------------------------------------------------------------------------------


def test_an_answer_is_the_agents_word() -> None:
    """With its form, and nothing added."""
    came = outcome(ended(Answer(True, "**Done**", 0)))
    assert came.is_of_agent
    assert (came.text.plain, str(came.text.html)) == ("**Done**", "<p><strong>Done</strong></p>")


@pytest.mark.parametrize("code", ErrorCode)
def test_a_failure_says_its_code_and_what_to_do(code: ErrorCode) -> None:
    """In the words of the node."""
    error = TaskError(code, "So it is.", {"candidates": ["worker@garden", 7, "a<b>@c"]})
    came = outcome(ended(failure(error)))
    assert not came.is_of_agent
    assert came.text.plain.startswith("❌ worker@here ")
    for part in (f"({code.value})", "So it is.", "There is worker@garden, a<b>@c.", code.advice):
        assert part in came.text.plain
    assert f"<code>{code.value}</code>" in str(came.text.html)
    assert "<b>" not in str(came.text.html)


def test_a_tool_that_failed() -> None:
    """Its output tells more than its exit code, and often what it said beside it tells most."""
    came = outcome(ended(Answer(False, "no such file", 2)))
    assert came.is_of_agent
    assert came.text.plain == (
        "❌ It has failed, with exit code 2.\n\nno such file\n\n"
        "Answer this message to go on with it, or ask again."
    )
    came = outcome(ended(Answer(False, "half", 2, {"stderr": "line\n" * 50 + "<b>no</b> flour\x1b[0m\n"})))
    assert "\n\nhalf\n\nIt said last:\nline\nline\n" in came.text.plain
    assert came.text.plain.count("line\n") == 11
    assert "line\n&lt;b&gt;no&lt;/b&gt; flour</code></pre><p><em>Answer" in str(came.text.html)


@pytest.mark.parametrize("said", ["no flour\n", "", " \n", 7, None, {}])
def test_what_is_said_twice_is_shown_once(said: Any) -> None:
    """What failed and has no output is answered with what it said beside it."""
    came = outcome(ended(Answer(False, "no flour", 1, {"stderr": said})))
    assert "It said last" not in came.text.plain


def test_a_tool_that_was_ended() -> None:
    """By whom it was."""
    killed = outcome(ended(Answer(False, "", 137, {"signal": "SIGKILL"})))
    assert killed.text.plain.startswith("❌ It has failed, with exit code 137 (SIGKILL).\n\nIt says nothing.")
    flooded = outcome(ended(Answer(False, "x", 1, {"ended": "It wrote <b>without</b> end."})))
    assert flooded.text.plain.startswith("❌ It has failed, with exit code 1. It wrote <b>without</b> end.\n")
    assert "<b>" not in str(flooded.text.html)


def test_a_tool_that_could_not_be_started() -> None:
    """Whoever asked can do nothing about it."""
    came = outcome(ended(Answer(False, "The command was not found.", 127, {"not_started": True})))
    assert not came.is_of_agent
    assert came.text.plain == (
        "❌ worker@here could not begin (exit code 127). The command was not found."
        " Tell whoever looks after here."
    )
    assert "<code>worker@here</code>" in str(came.text.html)


def test_work_that_was_interrupted() -> None:
    """It is not begun again by itself, which is what everybody wants to know first."""
    error = TaskError(ErrorCode.NODE_UNREACHABLE, "The process has ended.", {"interrupted": True})
    came = outcome(ended(failure(error)))
    assert came.text.plain == (
        "❌ worker@here was interrupted (NODE_UNREACHABLE). The process has ended. It is not begun again by"
        " itself: ask again if it is still wanted."
    )


def test_how_far_work_came_that_took_too_long() -> None:
    """Helps whoever asks again."""
    error = TaskError(ErrorCode.TIMEOUT, "It was ended.", {"output": "a *half*\n", "stderr": "peeling\n"})
    came = outcome(ended(failure(error)))
    assert "So far there was:\na *half*\n\nIt said last:\npeeling" in came.text.plain
    assert "<pre><code>a *half*</code></pre>" in str(came.text.html)


def test_it_was_cancelled() -> None:
    """By whom, and why."""
    came = outcome(ended(cancelled("@alice:there", "too late")))
    assert (came.text.plain, came.is_of_agent) == ("❌ Cancelled by @alice:there: too late", False)


def test_nothing_is_said() -> None:
    """Which has to be said too, and so has that something is missing."""
    assert outcome(ended(Answer(True, " \n", 0))).text.plain == "Done, and nothing is said of it."
    assert "It says nothing." in outcome(ended(Answer(False, "", 1))).text.plain
    cut = outcome(ended(Answer(True, "x", 0, {"output_truncated": True})))
    assert cut.text.plain.endswith("(It was longer than is kept.)")


def test_a_long_answer_is_a_file() -> None:
    """Named like the task."""
    came = outcome(ended(Answer(True, "line\n" * 1_000, 0), task_id="../t"))
    assert came.file is not None
    assert came.file.name == "t.txt"


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
def test_reports_on_the_work(content: dict[str, Any], plain: str, html: str | None) -> None:
    """Agents say what they like; what is meant for reading is found."""
    said = progress_text(content)
    assert said is not None
    assert said.plain == plain
    assert html is None or str(said.html) == html


def test_a_report_of_nothing() -> None:
    """Is none."""
    assert progress_text({}) is None
    assert progress_text({"n": 2**70}) is None


@given(
    st.dictionaries(
        st.sampled_from(["message", "text", "percent", "progress", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text(), max_size=2),
    )
)
def test_every_report_can_be_read(content: dict[str, Any]) -> None:
    """In one line of some length."""
    said = progress_text(content)
    assert said is None or (len(said.plain) < 1_100 and "\n" not in said.plain)
