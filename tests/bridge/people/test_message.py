"""Parsing messages."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.message import MAX_MENTIONS, Message, parse_message, parse_reaction
from federation.matrix.message_content import edit, formatted_text, in_thread, mention, reaction, reply, text

ALICE, WORKER = "@alice:there.test", "@worker-1:here.test"


def test_a_text_is_cleaned() -> None:
    """With the users that it mentions."""
    said = text(" a\u202eb\n", mentions=[WORKER])
    assert parse_message(said) == Message("ab", "m.text", (WORKER,))


@pytest.mark.parametrize(
    "html",
    [
        f'<a href="https://matrix.to/#/{WORKER}">worker</a>: do',
        "<a href='https://matrix.to/#/%40worker-1%3Ahere.test?via=x'>worker</a>",
        '<A class=x HREF="HTTPS://matrix.to/#/@worker-1:here.test">',
        '<a href="matrix:u/worker-1:here.test?action=chat">x</a>',
        str(mention(WORKER, "worker")),
    ],
)
def test_a_pill_is_a_mention(html: str) -> None:
    """Older clients do not send m.mentions."""
    said = {"msgtype": "m.text", "body": "do", "format": "org.matrix.custom.html", "formatted_body": html}
    assert parse_message(said).mentioned == (WORKER,)


@pytest.mark.parametrize(
    ("shown", "name"),
    [
        ("The baker", "The baker"),
        ("<b>The</b>\n baker &amp; co", "The baker & co"),
        ("", None),
        ("x" * 501, None),
        ("\u202eThe baker", "The baker"),
    ],
)
def test_the_text_of_a_pill_is_a_name(shown: str, name: str | None) -> None:
    """The plain text has this name instead of the pill."""
    html = f'<a href="https://matrix.to/#/{WORKER}">{shown}</a>: bake'
    said = {"msgtype": "m.text", "body": "The baker: bake", "format": "org.matrix.custom.html", "formatted_body": html}
    assert parse_message(said).names_of(WORKER) == (() if name is None else (name,))
    assert parse_message(said).names_of("@other:here.test") == ()


@pytest.mark.parametrize(
    "html",
    [
        f'<mx-reply><a href="https://matrix.to/#/{WORKER}">x</a></mx-reply>thanks',
        f"&lt;a href=https://matrix.to/#/{WORKER}>",
        '<a href="https://matrix.to/#/#room:here.test">room</a>',
        '<a href="https://evil.test/#/@worker-1:here.test">x</a>',
        "<a " * 20_000,
    ],
)
def test_other_html_is_not_a_mention(html: str) -> None:
    """Nor are pills in the quoted message of a reply."""
    said = {"msgtype": "m.text", "body": "do", "format": "org.matrix.custom.html", "formatted_body": html}
    assert parse_message(said).mentioned == ()


def test_the_number_of_mentions_is_limited() -> None:
    """A message can mention a thousand users."""
    users = [f"@u{number}:there.test" for number in range(1000)]
    assert len(parse_message({**text("x"), "m.mentions": {"user_ids": users}}).mentioned) == MAX_MENTIONS


def test_threads_and_replies() -> None:
    """The fallback for clients without threads is not a reply."""
    assert (
        parse_message(in_thread("$root", text("a"))).thread,
        parse_message(in_thread("$root", text("a"))).replies_to,
    ) == ("$root", None)
    true_answer = parse_message(in_thread("$root", text("a"), replies_to="$b"))
    assert (true_answer.thread, true_answer.replies_to) == ("$root", "$b")
    plain = parse_message(reply("$b", text("> <@x:y> was\n> said\n\nno")))
    assert (plain.thread, plain.replies_to, plain.body) == (None, "$b", "no")
    assert parse_message(reply("$b", text("> a quote of mine\nno"))).body == "> a quote of mine\nno"


def test_an_edit_is_parsed() -> None:
    """With the new content and the edited event."""
    said = edit("$old", formatted_text("new", mention(WORKER, "w"), mentions=[WORKER]))
    assert parse_message(said) == Message("new", "m.text", (WORKER,), replaces="$old", pills=((WORKER, "w"),))


def test_reactions_are_parsed() -> None:
    """With the event and the key."""
    assert parse_reaction(reaction("$a", "❌")) == ("$a", "❌")
    assert parse_reaction(in_thread("$a", {})) is None
    assert parse_reaction({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$a", "key": 7}}) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("$a") | st.just(WORKER),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = ("msgtype", "body", "format", "formatted_body", "m.mentions", "m.relates_to", "m.new_content")
RELATION_KEYS = ("rel_type", "event_id", "key", "m.in_reply_to", "is_falling_back")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(KEYS, ANYTHING),
            "m.relates_to": ANYTHING
            | st.fixed_dictionaries(
                {},
                optional={
                    **dict.fromkeys(RELATION_KEYS, ANYTHING),
                    "rel_type": st.sampled_from(["m.thread", "m.replace", "m.annotation", 7]),
                },
            ),
        },
    )
)
def test_everything_may_be_anything(content: dict[str, Any]) -> None:
    """It is read all the same, and what comes out can be looked up in a database."""
    message = parse_message(content)
    for event_id in (message.thread, message.replies_to, message.replaces):
        assert event_id is None or (event_id.startswith("$") and "\0" not in event_id)
    assert all(user.startswith("@") for user in message.mentioned)
    found = parse_reaction(content)
    assert found is None or found[0].startswith("$")
