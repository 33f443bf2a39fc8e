"""The content of messages and relations."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.message_content import (
    Html,
    bold,
    code,
    code_block,
    details,
    edit,
    formatted_text,
    html_list,
    in_thread,
    italic,
    link,
    mention,
    new_content,
    paragraph,
    quote,
    reaction,
    reference,
    relations_of,
    reply,
    sanitise,
    text,
)

ALICE = "@alice:a.example"


class ParsedHtml(HTMLParser):
    """The HTML as a client parses it."""

    def __init__(self, html: Html) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.plain = ""
        self.feed(str(html))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "br":
            self.plain += "\n"

    def handle_data(self, data: str) -> None:
        self.plain += data


def test_a_text_has_its_mentions() -> None:
    """Also if there are none, so that clients do not search for names. Invalid user ids are left out."""
    assert text("hi") == {"msgtype": "m.text", "body": "hi", "m.mentions": {}}
    plain = text("hi", msgtype="m.notice", mentions=[ALICE, ALICE, "nobody"])
    assert plain["m.mentions"] == {"user_ids": [ALICE]}
    with_form = formatted_text("hi", bold("hi"))
    assert (with_form["format"], with_form["formatted_body"]) == ("org.matrix.custom.html", "<strong>hi</strong>")


@pytest.mark.parametrize("plain", ["hi", "a < b & c", "two\nlines", ""])
def test_plain_text_has_no_html(plain: str) -> None:
    """One paragraph of text looks the same without it."""
    for html in (Html(plain), paragraph(plain)):
        assert formatted_text(plain, html) == text(plain)
    for html in (bold(plain), paragraph(plain) + paragraph(plain), Html(f"{plain}.")):
        assert formatted_text(plain, html)["formatted_body"] == str(html)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\r\0")))
def test_text_never_becomes_a_tag(plain: str) -> None:
    """All text of agents is escaped."""
    for made, tags in (
        (Html(plain), []),
        (bold(plain), ["strong"]),
        (italic(plain), ["em"]),
        (code(plain), ["code"]),
        (code_block(plain, plain), ["pre", "code"]),
        (quote(plain), ["blockquote"]),
        (paragraph(plain), ["p"]),
        (html_list([plain]), ["ul", "li"]),
        (html_list([plain], ordered=True), ["ol", "li"]),
        (details("more", plain), ["details", "summary"]),
        (link("https://a.example/" + plain, "there"), ["a"]),
        (Html("") + plain, []),
    ):
        assert [tag for tag in ParsedHtml(made).tags if tag != "br"] == tags
    assert ParsedHtml(Html(plain)).plain == plain
    assert ParsedHtml(bold(plain) + Html(" ") + italic(plain)).plain == f"{plain} {plain}"


@pytest.mark.parametrize(
    ("html", "safe"),
    [
        ("<script>alert(1)</script>a", "a"),
        ('<a href="javascript:x" onclick="y">a</a>', "<a>a</a>"),
        ('<a href="https://e.org" target="_blank">a</a>', '<a href="https://e.org">a</a>'),
        ("<img src=x onerror=y><b>a</b><!-- b -->", "a"),
        ('<code class="x">a</code>', "<code>a</code>"),
        ('<code class="language-c++">a</code>', '<code class="language-c++">a</code>'),
        ("<p>a<br/>b", "<p>a<br>b</p>"),
    ],
)
def test_other_html_is_sanitised(html: str, safe: str) -> None:
    """Only the tags that this node produces remain."""
    assert str(sanitise(html)) == safe


@pytest.mark.parametrize("address", ["javascript:alert(1)", " https://a", "data:text/html,x", "//a", ""])
def test_a_link_with_another_scheme_is_only_text(address: str) -> None:
    assert str(link(address, "here")) == "here"
    assert ParsedHtml(link('https://a/"><script>', "x")).attributes == [("href", 'https://a/"><script>')]
    assert str(mention(ALICE, "A")) == '<a href="https://matrix.to/#/@alice:a.example">A</a>'


def test_the_language_of_code_is_restricted() -> None:
    """It becomes part of an attribute."""
    assert re.search('class="language-c\\+\\+"', str(code_block("x", "c++")))
    assert "onclick=" not in str(code_block("x", '" onclick="'))


def test_an_edit_has_new_content_and_a_fallback() -> None:
    """Clients without edits show the text with a star, without mentions. A reply stays a reply."""
    new = reply("$before", formatted_text("hello", bold("hello"), mentions=[ALICE]))
    edited = edit("$original", new)
    assert edited["body"] == "* hello"
    assert edited["formatted_body"] == "* <strong>hello</strong>"
    assert edited["m.mentions"] == {}
    assert edited["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$original"}
    assert "m.relates_to" not in edited["m.new_content"]
    assert edited["m.new_content"]["m.mentions"] == {"user_ids": [ALICE]}
    assert new_content(edited)["body"] == "hello"
    assert new_content({"body": "x", "m.new_content": 5})["body"] == "x"


def test_the_key_of_a_reaction_is_limited() -> None:
    """To 255 bytes, cut between characters."""
    assert reaction("$1", "👍")["m.relates_to"] == {"rel_type": "m.annotation", "event_id": "$1", "key": "👍"}
    assert len(reaction("$1", "👍" * 100)["m.relates_to"]["key"].encode()) == 252


def test_a_reply_and_a_thread() -> None:
    """A reply may mention the sender of its target; in a thread the reply is a fallback unless it is
    requested."""
    answer = reply("$1", text("yes"), also_mention=[ALICE])
    assert answer["m.relates_to"] == {"m.in_reply_to": {"event_id": "$1"}}
    assert answer["m.mentions"] == {"user_ids": [ALICE]}
    assert "m.mentions" not in reply("$1", {"body": "x"})
    part = in_thread("$root", text("more"), latest="$last")
    assert part["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": "$root",
        "m.in_reply_to": {"event_id": "$last"},
        "is_falling_back": True,
    }
    meant = in_thread("$root", text("more"), latest="$last", replies_to="$one")
    assert relations_of(meant) == [("m.thread", "$root"), ("m.in_reply_to", "$one")]
    assert relations_of(part) == [("m.thread", "$root")]
    assert relations_of(reference("$1", {})) == [("m.reference", "$1")]


@pytest.mark.parametrize(
    "relates",
    [
        None,
        [],
        "m.replace",
        {},
        {"rel_type": "m.replace"},
        {"rel_type": 5, "event_id": "$1"},
        {"rel_type": "m.replace", "event_id": ["$1"]},
        {"rel_type": "a\0b", "event_id": "$1"},
        {"rel_type": "x" * 300, "event_id": "$1"},
        {"rel_type": "", "event_id": "$1"},
        {"m.in_reply_to": "$1"},
        {"m.in_reply_to": {"event_id": {}}},
    ],
)
def test_malformed_relations_are_ignored(relates: Any) -> None:
    """Other servers may send anything there."""
    assert relations_of({"m.relates_to": relates}) == []
