"""Reading the answer to a call, whatever it is."""

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
    flat_error,
    result_error,
    timed_out,
)
from bridge.connectors.offices.protocol.tools import (
    MAX_FILES,
    Outcome,
    ToolResult,
    full_text,
    outcome_of,
    outcome_text,
    read_result,
    took_text,
)
from bridge.people.texts.agent_output import LONGEST

PNG = b"\x89PNG\r\n\x1a\nrest"
IMAGE = {"type": "image", "data": b64encode(PNG).decode(), "mimeType": "image/png"}


def read(*content: object, **more: Any) -> ToolResult:
    return read_result({"content": list(content), "isError": False, "meta": None, **more}, "demo__add")


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "text": content, "annotations": None, "meta": None}


@pytest.mark.parametrize(
    ("answer", "outcome", "shown"),
    [
        ({"content": [text("5")], "isError": False}, Outcome.DONE, "5"),
        ({"content": []}, Outcome.DONE, ""),
        ({"content": [text("no such file")], "isError": True}, Outcome.ERROR, "no such file"),
        (computer_not_found("hands"), Outcome.NOT_FOUND, "Computer with name 'hands' not found"),
        (event_not_supported("x"), Outcome.NOT_FOUND, "The Computer does not support x"),
        (cross_office("spec", "x"), Outcome.ERROR, "Cross-room access denied"),
        (flat_error(408, "late"), Outcome.TIMED_OUT, "late"),
        (flat_error(403, "Only an Agent may"), Outcome.REFUSED, "Only an Agent may"),
        (flat_error(4018, "gone", reason="gone"), Outcome.ERROR, "gone"),
        (timed_out(5), Outcome.TIMED_OUT, timed_out(5)["content"][0]["text"]),
        (result_error("stopped", a2c_cancelled=True, a2c_cancel_reason="x"), Outcome.CANCELLED, "stopped"),
        (result_error("@a:b has refused it", a2c_approval="refused"), Outcome.REFUSED, "@a:b has refused it"),
        (result_error("Log in first", error_code=4006), Outcome.ERROR, "Log in first"),
        (result_error("stopped", a2c_interrupted=True), Outcome.INTERRUPTED, "stopped"),
        ({"content": [], "meta": {"a2c_timeout": "true"}}, Outcome.DONE, ""),
        ({"content": [text("x")], "code": 404}, Outcome.DONE, "x"),
    ],
)
def test_the_outcome_and_text_of_an_answer(answer: dict[str, Any], outcome: Outcome, shown: str) -> None:
    """A result, a result with a mark in `meta`, or a flat error."""
    found = read_result(answer, "x")
    assert (found.outcome, found.text.plain, found.files) == (outcome, shown, ())


@pytest.mark.parametrize("answer", [None, 5, "done", [], {}, {"content": "x"}, {"code": "404"}, {"code": True}])
def test_an_answer_of_another_form_counts_as_failed(answer: object) -> None:
    assert read_result(answer, "x").outcome is outcome_of(answer) is Outcome.ERROR


def test_parts_are_shown_in_order() -> None:
    """Texts, resources and links; a part of an unknown type is mentioned."""
    found = read(
        text("one"),
        {"type": "resource", "resource": {"uri": "file:///a\n.txt", "mimeType": "text/plain", "text": "two"}},
        {"type": "resource", "resource": {"text": "three"}},
        {"type": "resource_link", "name": "four", "uri": "file:///b.txt"},
        {"type": "dance"},
        None,
    )
    other = "(A part of an unknown type is not shown.)"
    lines = ["one", "file:///a .txt:", "two", "three", "four: file:///b.txt", other, other]
    assert found.text.plain == "\n".join(lines)
    assert found.text_bytes == len("\n".join(lines))


def test_structured_content_is_shown_if_there_is_no_text() -> None:
    """With secrets masked. If there is text, it is what is meant for reading."""
    found = read(structuredContent={"sum": 5, "token": "hunter2"})
    assert found.text.plain == '```json\n{\n  "sum": 5,\n  "token": "[hidden]"\n}\n```'
    assert "<pre><code" in str(found.text.html)
    assert read(text("5"), structuredContent={"sum": 5}).text.plain == "5"


@pytest.mark.parametrize("output", ["x" * (LONGEST + 1), "x\n" * 81])
def test_text_that_is_too_long_becomes_a_file(output: str) -> None:
    """Its beginning is shown with a note."""
    found = read(text(output))
    [file] = found.files
    assert file.name == "demo__add.txt"
    assert file.content == output.rstrip().encode()
    assert len(found.text.plain) < 3_000
    assert found.text_bytes == len(output)


def test_binary_parts_become_files() -> None:
    """The text mentions their type, their safe name and their size."""
    blob = {"uri": "x://y", "mimeType": "Application/PDF; a=b", "blob": b64encode(b"%PDF").decode()}
    audio = {"type": "audio", "data": b"sound", "mimeType": "audio/../../x"}
    found = read(text("Here."), IMAGE, {"type": "resource", "resource": blob}, audio)
    assert [(file.name, file.content, file.content_type) for file in found.files] == [
        ("demo__add-1.png", PNG, "image/png"),
        ("demo__add-2.bin", b"%PDF", "application/pdf"),
        ("demo__add-3.bin", b"sound", "application/octet-stream"),
    ]
    assert found.text.plain.split("\n")[:2] == ["Here.", f"(image/png, {len(PNG)} bytes, in the file demo__add-1.png.)"]
    assert read_result({"content": [IMAGE]}, "../.x/\n").files[0].name == "x-1.png"


def test_the_full_text_of_an_answer() -> None:
    """Unlimited, for every outcome; binary parts are mentioned."""
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    content = [{"type": "text", "text": "x\n" * 9_000}, picture]
    outcome, output = full_text({"content": content, "isError": True})
    assert outcome is Outcome.ERROR
    assert output == "x\n" * 9_000 + "\n(image/png, 2 bytes.)"
    assert full_text({"code": 404, "message": "nobody"}) == (Outcome.NOT_FOUND, "nobody")
    assert full_text({"structuredContent": {"a": 1}})[1] == '```json\n{\n  "a": 1\n}\n```'
    assert full_text(None) == (Outcome.ERROR, "")


def test_content_stored_at_the_computer_is_no_file() -> None:
    """ "A binary content item above the inline budget has `data` emptied": only the Agent can fetch it."""
    meta = {"a2c_blob_handle": "secret-handle", "a2c_total_size": 100_000, "a2c_sha256": "0" * 64}
    big = {**IMAGE, "data": "", "_meta": meta}
    resource = {"type": "resource", "resource": {"mimeType": "a/b", "blob": "", "_meta": meta}}
    found = read(big, resource, {**big, "_meta": {**meta, "a2c_total_size": -1}})
    assert found.files == ()
    assert found.text.plain.split("\n") == [
        "(image/png, 100000 bytes, stored at the Computer.)",
        "(a/b, 100000 bytes, stored at the Computer.)",
        "(image/png stored at the Computer.)",
    ]


@pytest.mark.parametrize("data", ["", None, 5, "ä", "a", "a b=", "====", ["x"]])
def test_a_part_that_cannot_be_decoded_is_mentioned(data: object) -> None:
    found = read({**IMAGE, "data": data})
    assert found.files == ()
    assert found.text.plain == "(image/png, not readable.)"


def test_the_number_of_files_and_parts_is_limited() -> None:
    found = read(*[IMAGE] * 30)
    assert len(found.files) == MAX_FILES
    assert found.text.plain.count("omitted") == 30 - MAX_FILES
    assert read(*[text("")] * 5_000).text.plain.endswith("(4000 more parts are not shown.)")


def test_text_is_cleaned() -> None:
    """As that of agents is: no HTML, no links into Matrix, no invisible characters."""
    found = read(text("<b>a</b>\u202e\0 [x](https://matrix.to/#/@a:b) matrix:u/a:b \ud800<script>"))
    html = str(found.text.html)
    assert "<b>" not in html
    assert "<script" not in html
    assert "href" not in html
    assert not {"\u202e", "\0", "\ud800"} & set(found.text.plain + html)


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, "0.0 s"), (49, "0.0 s"), (400, "0.4 s"), (1_950, "2.0 s"), (9_999, "9.9 s"), (10_000, "10 s"),
     (200_000, "3 min 20 s"), (-5, "0 s")],
)  # fmt: skip
def test_durations(milliseconds: int, shown: str) -> None:
    assert took_text(milliseconds) == shown


@pytest.mark.parametrize("outcome", Outcome)
def test_each_outcome_has_a_text(outcome: Outcome) -> None:
    """It begins with a sign for success or failure."""
    line = outcome_text(outcome, 400)
    assert line.startswith("✅ 0.4 s" if outcome is Outcome.DONE else "❌ ")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.text() | st.sampled_from(["content", "type", "text", "data", "resource", "meta", "code"]), inner
        )
    ),
    max_leaves=30,
)
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link"])},
    optional=dict.fromkeys(("text", "data", "resource", "name", "uri", "mimeType", "meta", "_meta"), JSON),
)


@given(JSON | st.fixed_dictionaries({"content": st.lists(ITEMS | JSON)}, optional={"meta": JSON, "code": JSON}))
def test_any_answer_can_be_read(answer: Any) -> None:
    """A Computer can send anything."""
    found = read_result(answer, "tool")
    assert len(found.text.plain) <= LONGEST
    found.text.plain.encode()
    str(found.text.html).encode()


@pytest.mark.parametrize(
    "output", ["\x1b[" * 400_000, "*" * 5_900, "[" * 5_900, "`_*" * 1_900, "> " * 2_900, "\n" * 900_000, "a." * 400_000]
)
def test_hostile_output_is_not_slow(output: str) -> None:
    """Up to the size of a frame."""
    began = time.process_time()
    read(text(output), structuredContent={"a": output})
    read(structuredContent={"a": output})
    assert time.process_time() - began < 1
