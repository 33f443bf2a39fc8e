"""What a call came to, whatever the answer is."""

import time
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.offices.protocol.errors import (
    computer_not_found,
    cross_office,
    event_not_supported,
    flat,
    result_error,
    timed_out,
)
from bridge.connectors.offices.protocol.tools import (
    MOST_FILES,
    Outcome,
    ToolResult,
    outcome_of,
    outcome_words,
    read_result,
    took_text,
    whole_text,
)
from bridge.people.texts.agent_output import LONGEST

PNG = b"\x89PNG\r\n\x1a\nrest"
IMAGE = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}


def read(*content: object, **more: Any) -> ToolResult:
    return read_result({"content": list(content), "isError": False, "meta": None, **more}, "demo__add")


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "annotations": None, "meta": None}


@pytest.mark.parametrize(
    ("answer", "outcome", "said"),
    [
        ({"content": [text("5")], "isError": False}, Outcome.DONE, "5"),
        ({"content": []}, Outcome.DONE, ""),
        ({"content": [text("no such file")], "isError": True}, Outcome.ERROR, "no such file"),
        (computer_not_found("hands"), Outcome.NOT_FOUND, "Computer with name 'hands' not found"),
        (event_not_supported("x"), Outcome.NOT_FOUND, "The Computer does not know x"),
        (cross_office("spec", "x"), Outcome.ERROR, "Cross-room access denied"),
        (flat(408, "late"), Outcome.TIMED_OUT, "late"),
        (flat(403, "Only an Agent asks Computers"), Outcome.REFUSED, "Only an Agent asks Computers"),
        (flat(4018, "gone", reason="gone"), Outcome.ERROR, "gone"),
        (timed_out(5), Outcome.TIMED_OUT, "The tool has not answered within 5 s, and was told to stop."),
        (result_error("stopped", a2c_cancelled=True, a2c_cancel_reason="x"), Outcome.CANCELLED, "stopped"),
        (result_error("@a:b has refused it", a2c_approval="refused"), Outcome.REFUSED, "@a:b has refused it"),
        (result_error("Log in first", error_code=4006), Outcome.ERROR, "Log in first"),
        (result_error("stopped", a2c_interrupted=True), Outcome.INTERRUPTED, "stopped"),
        ({"content": [], "meta": {"a2c_timeout": "true"}}, Outcome.DONE, ""),
        ({"content": [text("x")], "code": 404}, Outcome.DONE, "x"),
    ],
)
def test_an_answer_says_how_it_ended(answer: dict[str, Any], outcome: Outcome, said: str) -> None:
    """A result, one with a mark in `meta`, or a flat error; and the words of it."""
    found = read_result(answer, "x")
    assert (found.outcome, found.text.plain, found.files) == (outcome, said, ())


@pytest.mark.parametrize(
    "answer", [None, 5, "done", [], {}, {"content": "x"}, {"code": "404"}, {"code": True}]
)
def test_what_is_no_answer_has_failed(answer: object) -> None:
    assert read_result(answer, "x").outcome is outcome_of(answer) is Outcome.ERROR


def test_parts_stand_below_each_other() -> None:
    """Texts, resources, links; what is no part is said to be one of another kind."""
    found = read(
        text("one"),
        {"type": "resource", "resource": {"uri": "file:///a\n.txt", "mimeType": "text/plain", "text": "two"}},
        {"type": "resource", "resource": {"text": "three"}},
        {"type": "resource_link", "name": "four", "uri": "file:///b.txt"},
        {"type": "dance"},
        None,
    )
    other = "(A part of another kind is not shown.)"
    lines = ["one", "file:///a .txt:", "two", "three", "four: file:///b.txt", other, other]
    assert found.text.plain == "\n".join(lines)
    assert found.text_bytes == len("\n".join(lines))


def test_an_object_is_shown_where_nothing_is_said() -> None:
    """Without its secrets. With words beside it, these are what is meant for reading."""
    found = read(structuredContent={"sum": 5, "token": "hunter2"})
    assert found.text.plain == '```json\n{\n  "sum": 5,\n  "token": "[hidden]"\n}\n```'
    assert "<pre><code" in str(found.text.html)
    assert read(text("5"), structuredContent={"sum": 5}).text.plain == "5"


@pytest.mark.parametrize("said", ["x" * (LONGEST + 1), "x\n" * 81])
def test_what_is_too_long_is_in_a_file(said: str) -> None:
    """Its beginning is shown, and that there is more."""
    found = read(text(said))
    [file] = found.files
    assert file.name == "demo__add.txt"
    assert file.content == said.rstrip().encode()
    assert len(found.text.plain) < 3_000
    assert "The whole answer is the file below" in found.text.plain
    assert found.text_bytes == len(said)


def test_what_is_no_text_is_in_a_file() -> None:
    """With its type, a name that is safe, and its size said."""
    blob = {"uri": "x://y", "mimeType": "Application/PDF; a=b", "blob": b64encode(b"%PDF").decode()}
    audio = {"type": "audio", "data": b"sound", "mimeType": "audio/../../x"}
    found = read(text("Here."), IMAGE, {"type": "resource", "resource": blob}, audio)
    assert [(file.name, file.content, file.content_type) for file in found.files] == [
        ("demo__add-1.png", PNG, "image/png"),
        ("demo__add-2.bin", b"%PDF", "application/pdf"),
        ("demo__add-3.bin", b"sound", "application/octet-stream"),
    ]
    assert found.text.plain.split("\n")[:2] == [
        "Here.",
        f"(image/png, {len(PNG)} bytes, in the file demo__add-1.png.)",
    ]
    assert read_result({"content": [IMAGE]}, "../.x/\n").files[0].name == "x-1.png"


def test_all_that_a_tool_says_is_had_as_text() -> None:
    """However long, and however it ended; of what is no text, that it is there."""
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    content = [{"type": "text", "text": "x\n" * 9_000}, picture]
    outcome, said = whole_text({"content": content, "isError": True})
    assert outcome is Outcome.ERROR
    assert said == "x\n" * 9_000 + "\n(image/png, 2 bytes.)"
    assert whole_text({"code": 404, "message": "nobody"}) == (Outcome.NOT_FOUND, "nobody")
    assert whole_text({"structuredContent": {"a": 1}})[1] == '```json\n{\n  "a": 1\n}\n```'
    assert whole_text(None) == (Outcome.ERROR, "")


def test_what_stays_at_the_computer_is_no_file() -> None:
    """ "A binary content item above the inline budget has `data` emptied": only the Agent can drain it."""
    meta = {"a2c_blob_handle": "secret-handle", "a2c_total_size": 100_000, "a2c_sha256": "0" * 64}
    big = {**IMAGE, "data": "", "_meta": meta}
    resource = {"type": "resource", "resource": {"mimeType": "a/b", "blob": "", "_meta": meta}}
    found = read(big, resource, {**big, "_meta": {**meta, "a2c_total_size": -1}})
    assert found.files == ()
    assert found.text.plain.split("\n") == [
        "(image/png, 100000 bytes, that stays at the Computer.)",
        "(a/b, 100000 bytes, that stays at the Computer.)",
        "(image/png that stays at the Computer.)",
    ]


@pytest.mark.parametrize("data", ["", None, 5, "ä", "a", "a b=", "====", ["x"]])
def test_what_cannot_be_read_is_said_to_be(data: object) -> None:
    found = read({**IMAGE, "data": data})
    assert found.files == ()
    assert found.text.plain == "(image/png that cannot be read.)"


def test_files_are_not_without_end() -> None:
    found = read(*[IMAGE] * 30)
    assert len(found.files) == MOST_FILES
    assert found.text.plain.count("left out") == 30 - MOST_FILES
    assert read(*[text("")] * 5_000).text.plain.endswith("(4000 more parts are not shown.)")


def test_words_are_cleaned() -> None:
    """As those of agents are: no HTML, no links into Matrix, nothing that is not seen."""
    found = read(text("<b>a</b>\u202e\0 [x](https://matrix.to/#/@a:b) matrix:u/a:b \ud800<script>"))
    html = str(found.text.html)
    assert "<b>" not in html
    assert "<script" not in html
    assert "href" not in html
    assert not {"\u202e", "\0", "\ud800"} & set(found.text.plain + html)


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [(0, "0.0 s"), (49, "0.0 s"), (400, "0.4 s"), (1_950, "2.0 s"), (9_999, "9.9 s"), (10_000, "10 s"),
     (200_000, "3 min 20 s"), (-5, "0 s")],
)  # fmt: skip
def test_how_long_it_took(milliseconds: int, said: str) -> None:
    assert took_text(milliseconds) == said


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_has_words(outcome: Outcome) -> None:
    """And a sign that says whether it was done."""
    words = outcome_words(outcome, 400)
    assert words.startswith("✅ 0.4 s" if outcome is Outcome.DONE else "❌ ")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text() | st.sampled_from(["content", "type", "text", "data", "resource", "meta", "code"]),
            inner,
        )
    ),
    max_leaves=30,
)
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link"])},
    optional=dict.fromkeys(("text", "data", "resource", "name", "uri", "mimeType", "meta", "_meta"), JSON),
)


@given(
    JSON | st.fixed_dictionaries({"content": st.lists(ITEMS | JSON)}, optional={"meta": JSON, "code": JSON})
)
def test_any_answer_can_be_read(answer: Any) -> None:
    """A Computer sends what it likes."""
    found = read_result(answer, "tool")
    assert len(found.text.plain) <= LONGEST
    found.text.plain.encode()
    str(found.text.html).encode()


@pytest.mark.parametrize(
    "said",
    [
        "\x1b[" * 400_000,
        "*" * 5_900,
        "[" * 5_900,
        "`_*" * 1_900,
        "> " * 2_900,
        "\n" * 900_000,
        "a." * 400_000,
    ],
)
def test_hostile_words_are_not_slow(said: str) -> None:
    """As many as a frame holds."""
    began = time.process_time()
    read(text(said), structuredContent={"a": said})
    read(structuredContent={"a": said})
    assert time.process_time() - began < 1
