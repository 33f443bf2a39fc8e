"""What is said to people."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.texts.text import (
    CUT,
    MARK,
    MOST_BYTES,
    Kind,
    Text,
    content_of,
    html_of,
    is_ours,
    joined,
    kind_of,
)
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.matrix.message_content import Html, bold, edit, in_thread


def test_it_says_who_says_it_and_calls_nobody() -> None:
    """The mark is how other nodes know it; m.mentions is always there."""
    content = content_of(Text("a", bold("a")), Kind.ANSWER, task_id="t-1", msgtype="m.text")
    assert content == {
        "msgtype": "m.text",
        "body": "a",
        "format": "org.matrix.custom.html",
        "formatted_body": "<strong>a</strong>",
        "m.mentions": {},
        MARK: {"kind": "answer", "task_id": "t-1"},
    }
    assert is_ours(content)
    assert kind_of(content) is Kind.ANSWER


def test_whom_we_call_is_named() -> None:
    """And nobody else is called, whatever the text says."""
    content = content_of(Text.of("@room @bob:there.test"), Kind.WORD, mentions=["@alice:there.test"])
    assert content["m.mentions"] == {"user_ids": ["@alice:there.test"]}


def test_what_is_too_long_with_its_form_goes_without() -> None:
    """And is cut if it still is too long."""
    plain = "x" * 30_000
    assert "formatted_body" not in content_of(Text(plain, Html(plain)), Kind.WORD)
    assert content_of(Text(plain, Html(plain)), Kind.WORD)["body"] == plain
    cut = content_of(Text.of("ü" * 100_000), Kind.WORD)["body"]
    assert cut.endswith(CUT)
    assert MOST_BYTES - 2 <= len(orjson.dumps(cut)) <= MOST_BYTES + 2


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 20_000))
def test_every_text_fits_into_an_event(text: str, times: int) -> None:
    """Whatever it is made of, with the relation around it, and edited if it may be."""
    said = Text.of((text * times)[:200_000])
    content = in_thread("$" + "e" * 254, content_of(said, Kind.ANSWER, task_id="t" * 255))
    assert len(orjson.dumps(content)) <= MAX_OWN_CONTENT_BYTES
    editable = content_of(said, Kind.PROGRESS, most_bytes=MOST_BYTES // 2)
    assert len(orjson.dumps(edit("$" + "e" * 254, editable))) <= MAX_OWN_CONTENT_BYTES


def test_what_others_send_is_read_as_it_is() -> None:
    """A mark that nobody knows, and a form that is none."""
    assert kind_of({MARK: {"kind": "new"}}) is None
    assert kind_of({MARK: 7}) is None
    assert kind_of({MARK: {"kind": {}}}) is None
    assert is_ours({MARK: 7})
    assert not is_ours({})
    assert html_of({"formatted_body": "<b>x</b>"}) is None
    assert html_of({"format": "org.matrix.custom.html", "formatted_body": 7}) is None


@given(st.lists(st.text(max_size=3)))
def test_parts_are_joined_in_their_order(parts: list[str]) -> None:
    """However many."""
    assert str(joined(map(Html, parts))) == "".join(str(Html(part)) for part in parts)
    assert (Text.of("a") + Text.of("<")).html.__str__() == "a&lt;"
