"""The contents of messages to people."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.texts.text import (
    CUT,
    MARK,
    MAX_BYTES,
    Kind,
    Text,
    concatenate,
    content_of,
    html_of,
    is_from_palaver,
    kind_of,
)
from federation.events.format import MAX_OWN_CONTENT_BYTES
from federation.matrix.message_content import Html, bold, edit, in_thread


def test_a_message_has_the_mark_and_no_mentions() -> None:
    """Other nodes recognise it by the mark. m.mentions is always present."""
    content = content_of(Text("a", bold("a")), Kind.ANSWER, task_id="t-1", msgtype="m.text")
    assert content == {
        "msgtype": "m.text",
        "body": "a",
        "format": "org.matrix.custom.html",
        "formatted_body": "<strong>a</strong>",
        "m.mentions": {},
        MARK: {"kind": "answer", "task_id": "t-1"},
    }
    assert is_from_palaver(content)
    assert kind_of(content) is Kind.ANSWER


def test_only_given_users_are_mentioned() -> None:
    """Whatever names the text contains."""
    content = content_of(Text.of("@room @bob:there.test"), Kind.NOTICE, mentions=["@alice:there.test"])
    assert content["m.mentions"] == {"user_ids": ["@alice:there.test"]}


def test_html_is_omitted_if_it_is_too_long() -> None:
    """The plain text is cut if it is still too long."""
    plain = "x" * 30_000
    assert "formatted_body" not in content_of(Text(plain, Html(plain)), Kind.NOTICE)
    assert content_of(Text(plain, Html(plain)), Kind.NOTICE)["body"] == plain
    cut = content_of(Text.of("ü" * 100_000), Kind.NOTICE)["body"]
    assert cut.endswith(CUT)
    assert MAX_BYTES - 2 <= len(orjson.dumps(cut)) <= MAX_BYTES + 2


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 20_000))
def test_every_text_fits_into_an_event(text: str, times: int) -> None:
    """With its relation, and as an edit if it is editable."""
    said = Text.of((text * times)[:200_000])
    content = in_thread("$" + "e" * 254, content_of(said, Kind.ANSWER, task_id="t" * 255))
    assert len(orjson.dumps(content)) <= MAX_OWN_CONTENT_BYTES
    editable = content_of(said, Kind.PROGRESS, max_bytes=MAX_BYTES // 2)
    assert len(orjson.dumps(edit("$" + "e" * 254, editable))) <= MAX_OWN_CONTENT_BYTES


def test_invalid_fields_are_ignored() -> None:
    """Remote users can send any mark and any format."""
    assert kind_of({MARK: {"kind": "new"}}) is None
    assert kind_of({MARK: 7}) is None
    assert kind_of({MARK: {"kind": {}}}) is None
    assert is_from_palaver({MARK: 7})
    assert not is_from_palaver({})
    assert html_of({"formatted_body": "<b>x</b>"}) is None
    assert html_of({"format": "org.matrix.custom.html", "formatted_body": 7}) is None


@given(st.lists(st.text(max_size=3)))
def test_parts_are_concatenated_in_order(parts: list[str]) -> None:
    """However many."""
    assert str(concatenate(map(Html, parts))) == "".join(str(Html(part)) for part in parts)
    assert (Text.of("a") + Text.of("<")).html.__str__() == "a&lt;"
