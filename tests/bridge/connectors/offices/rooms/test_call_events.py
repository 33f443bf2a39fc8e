"""Messages about calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.protocol.errors import computer_not_found, interrupted
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.tools import Outcome, ToolResult, read_result
from bridge.connectors.offices.rooms.call_events import (
    CALL,
    DIGEST,
    MAX_IN_DIGEST,
    RESULT,
    DigestEntry,
    ToolCall,
    call_content,
    digest_content,
    file_content,
    note_content,
    result_content,
)
from bridge.connectors.offices.rooms.masking import masked
from bridge.people.texts.text import Kind, Text, is_from_palaver, kind_of
from federation.events.format import MAX_NESTING, MAX_OWN_CONTENT_BYTES
from federation.matrix.canonical_json import encode
from federation.matrix.message_content import relations_of
from federation.media.media import MediaInfo, Mxc

ROOT = "$" + "r" * 43
DONE = read_result({"content": [{"type": "text", "text": "5"}], "isError": False}, "add")
INFO = MediaInfo(Mxc("here.test", "m"), "0" * 64, 12, "image/png", "add-1.png", "@x:here.test", 5)
WORST_NAME = '"' * 255
HOSTILE = "<b>@room</b> [x](https://matrix.to/#/@a:b) matrix:u/a:b \u202e\0\x1b[31m"
TEXTS = st.text() | st.builds(
    lambda piece, times: piece * times,
    st.sampled_from(['"', "`'` ", "😀", "&", "_<_ ", "\\", "a\n", "matrix:a ", HOSTILE]),
    st.integers(1, 3_000),
)


def call(params: object = None, name: str = "add") -> ToolCall:
    return ToolCall("c1", "r1", "boss", "hands", name, masked({"a": 2} if params is None else params), 5)


def result(answer: object = None, found: ToolResult = DONE, media: Sequence[MediaInfo] = ()) -> dict[str, Any]:
    found = found if answer is None else read_result(answer, "add")
    return result_content(call(), found, call_event=ROOT, at_ms=9, took_ms=400, media=media)


def test_an_interrupted_call_has_no_duration() -> None:
    """Neither in the text nor in the machine-readable part."""
    found = read_result(interrupted(), "add")
    content = result_content(call(), found, call_event=ROOT, at_ms=9, took_ms=None)
    assert (content[RESULT]["outcome"], "took_ms" in content[RESULT]) == ("interrupted", False)
    assert content["body"].startswith("❌ Interrupted.\nThe node stopped")
    [entry] = digest_content([DigestEntry(call(), Outcome.INTERRUPTED, None)])[DIGEST]["calls"]
    assert (entry["outcome"], "took_ms" in entry) == ("interrupted", False)


def checked(content: dict[str, Any]) -> dict[str, Any]:
    """What holds for every message: it mentions no user, is marked, and fits into an event."""
    assert content["m.mentions"] == {}
    assert is_from_palaver(content)
    assert kind_of(content) is Kind.NOTICE
    assert len(encode(content)) <= MAX_OWN_CONTENT_BYTES
    return content


def test_a_call_is_the_root_of_a_thread() -> None:
    """Every client shows who calls what. The parameters are collapsed; programs read the rest."""
    content = checked(call_content(call({"a": 2, "token": "x", "b": 0.5})))
    assert content["msgtype"] == "m.notice"
    assert content["body"] == '🔧 boss calls add on hands\n{"a":2,"token":"[hidden]","b":"0.5"}'
    html = content["formatted_body"]
    assert html.startswith("🔧 <code>boss</code> calls <code>add</code> on <code>hands</code><details>")
    assert "<summary>Parameters (1 hidden)</summary><pre><code" in html
    assert relations_of(content) == []
    assert content[CALL] == {
        "call_id": "c1",
        "req_id": "r1",
        "agent": "boss",
        "computer": "hands",
        "tool_name": "add",
        "at_ms": 5,
        "params": {"a": 2, "token": "[hidden]", "b": "0.5"},
        "hidden": ["/token"],
    }


def test_a_direct_call_is_marked() -> None:
    """For programs: its requester may have the same name as a member."""
    assert call_content(replace(call(), is_direct=True))[CALL]["direct"] is True
    assert "direct" not in call_content(call())[CALL]


@pytest.mark.parametrize("params", [{}, []])
def test_without_parameters_none_are_shown(params: object) -> None:
    content = checked(call_content(call(params)))
    assert content["body"] == "🔧 boss calls add on hands"
    assert "details" not in content["formatted_body"]


def test_long_parameters_are_shortened_for_people() -> None:
    """The machine-readable part keeps more of them."""
    content = checked(call_content(call({f"key {n}": "x" * 50 for n in range(200)})))
    assert len(content["body"]) < 400
    assert content["formatted_body"].endswith("[…]</code></pre></details>")
    assert len(content[CALL]["params"]) == 200


def test_nested_parameters_fit_into_an_event() -> None:
    """The number of levels in an event is limited."""
    params: Any = {}
    for _ in range(500):
        params = {"a": params}
    encode(checked(call_content(call(params))), max_depth=MAX_NESTING - 2)


def test_a_result_is_in_the_thread_of_its_call() -> None:
    """The machine-readable part has its own reference, because an event can have only one relation."""
    content = checked(result())
    assert content["body"] == "✅ 0.4 s\n5"
    assert content["formatted_body"] == "<p>✅ 0.4 s</p><p>5</p>"
    assert content["m.relates_to"]["rel_type"] == "m.thread"
    assert content["m.relates_to"]["is_falling_back"] is True
    assert relations_of(content) == [("m.thread", ROOT)]
    assert relations_of(content[RESULT]) == [("m.reference", ROOT)]
    assert {name: one for name, one in content[RESULT].items() if name != "m.relates_to"} == {
        "call_id": "c1",
        "req_id": "r1",
        "agent": "boss",
        "computer": "hands",
        "tool_name": "add",
        "at_ms": 9,
        "outcome": "done",
        "took_ms": 400,
        "sizes": {"text": 1, "files": 0},
    }


def test_a_result_lists_its_media() -> None:
    """With their hashes. For people, each file is a message."""
    content = checked(result(media=[INFO]))
    media = {"mxc": "mxc://here.test/m", "sha256": "0" * 64, "size": 12, "content_type": "image/png"}
    assert content[RESULT]["media"] == [media]
    assert content[RESULT]["sizes"] == {"text": 1, "files": 12}
    file = checked(file_content(INFO, "add-1.png", call_event=ROOT))
    assert (file["msgtype"], file["url"], file["body"]) == ("m.file", "mxc://here.test/m", "add-1.png")
    assert file["info"] == {"size": 12, "mimetype": "image/png"}
    assert relations_of(file) == [("m.thread", ROOT)]


def test_a_failure_shows_its_error() -> None:
    """The tool's, or the node's."""
    failed = {"content": [{"type": "text", "text": "no such file"}], "isError": True}
    assert result(failed)["body"] == "❌ Failed after 0.4 s.\nno such file"
    nobody = result(computer_not_found("hands"))
    assert nobody["body"] == "❌ The Computer is not connected.\nComputer with name 'hands' not found"
    assert nobody[RESULT]["outcome"] == "not_found"


def test_a_note_can_mention_users() -> None:
    """Other messages cannot."""
    note = note_content(Text.of("Who?"), call_event=ROOT, mentions=["@a:here.test", "nobody"])
    assert note["m.mentions"] == {"user_ids": ["@a:here.test"]}
    assert relations_of(checked(note_content(Text.of("x"), call_event=ROOT))) == [("m.thread", ROOT)]


def test_names_and_output_cannot_inject_anything() -> None:
    """No HTML, no links into Matrix, no mentions, no invisible characters."""
    hostile = ToolCall("c", "r", HOSTILE, HOSTILE, HOSTILE, masked({HOSTILE: HOSTILE}), 5)
    answer = {"content": [{"type": "text", "text": HOSTILE}]}
    for content in (call_content(hostile), result(answer), digest_content([DigestEntry(hostile, Outcome.DONE, 1)])):
        html = checked(content)["formatted_body"]
        assert "<b>" not in html
        assert "href" not in html
        shown = html + content["body"]
        assert not {"\u202e", "\0", "\x1b"} & set(shown)


def test_a_digest_lists_calls_with_their_outcomes() -> None:
    """Calls that do not fit are counted."""
    entries = [DigestEntry(call(), outcome, 400) for outcome in (Outcome.DONE, Outcome.REFUSED)]
    content = checked(digest_content(entries))
    assert content["body"] == "🔧 2 calls\nboss → add on hands: ✅ 0.4 s\nboss → add on hands: ❌ Refused."
    assert [one["outcome"] for one in content[DIGEST]["calls"]] == ["done", "refused"]
    assert content[DIGEST]["more"] == 0
    assert "params" not in content[DIGEST]["calls"][0]
    many = checked(digest_content(entries * 60))
    assert many["body"].startswith("🔧 120 calls\n")
    assert many["body"].endswith("and 70 more")
    assert (len(many[DIGEST]["calls"]), many[DIGEST]["more"]) == (MAX_IN_DIGEST, 70)


def test_a_digest_of_long_names_lists_fewer_calls() -> None:
    """It always fits, with its HTML."""
    worst = ToolCall("c" * 64, WORST_NAME, WORST_NAME, WORST_NAME, WORST_NAME, masked({}), 2**53 - 1)
    content = checked(digest_content([DigestEntry(worst, Outcome.TIMED_OUT, 2**40)] * 500))
    assert "formatted_body" in content
    html_list = len(content[DIGEST]["calls"])
    assert 5 < html_list < MAX_IN_DIGEST
    assert content[DIGEST]["more"] == 500 - html_list
    assert checked(digest_content([]))["body"] == "🔧 0 calls"


@given(
    st.dictionaries(TEXTS, TEXTS | st.integers() | st.floats() | st.lists(TEXTS), max_size=20),
    st.text(min_size=1, max_size=63).filter(is_name) | st.just(WORST_NAME),
)
def test_a_call_always_fits(params: dict[str, Any], name: str) -> None:
    """Into an event, with its HTML."""
    content = checked(call_content(ToolCall(name[:64], name, name, name, name, masked(params), 5)))
    assert "formatted_body" in content


@given(st.lists(TEXTS, max_size=5))
def test_a_result_always_fits(texts: list[str]) -> None:
    """Into an event, with its HTML."""
    content = checked(result({"content": [{"type": "text", "text": text} for text in texts]}, media=[INFO] * 11))
    # A single line of plain text needs no HTML.
    assert "formatted_body" in content or "\n" not in content["body"]
