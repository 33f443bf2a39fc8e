"""What somebody's message says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.people.message import MOST_MENTIONED, Message, reacted, read
from federation.matrix.message_content import edit, formatted_text, in_thread, mention, reaction, reply, text

ALICE, WORKER = "@alice:there.test", "@worker-1:here.test"


def test_a_text() -> None:
    """With whom it mentions, cleaned."""
    said = text(" a\u202eb\n", mentions=[WORKER])
    assert read(said) == Message("ab", "m.text", (WORKER,))


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
def test_a_pill_mentions_too(html: str) -> None:
    """Older clients write no m.mentions."""
    said = {"msgtype": "m.text", "body": "do", "format": "org.matrix.custom.html", "formatted_body": html}
    assert read(said).mentioned == (WORKER,)


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
def test_a_pill_says_how_somebody_is_called(shown: str, name: str | None) -> None:
    """Which is what stands for it in the plain text: the name that people see."""
    html = f'<a href="https://matrix.to/#/{WORKER}">{shown}</a>: bake'
    said = {
        "msgtype": "m.text",
        "body": "The baker: bake",
        "format": "org.matrix.custom.html",
        "formatted_body": html,
    }
    assert read(said).names_of(WORKER) == (() if name is None else (name,))
    assert read(said).names_of("@other:here.test") == ()


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
def test_what_is_no_pill_mentions_nobody(html: str) -> None:
    """What is answered is quoted, and its author is not called."""
    said = {"msgtype": "m.text", "body": "do", "format": "org.matrix.custom.html", "formatted_body": html}
    assert read(said).mentioned == ()


def test_not_everybody_is_looked_at() -> None:
    """Of a message that mentions a thousand."""
    users = [f"@u{number}:there.test" for number in range(1000)]
    assert len(read({**text("x"), "m.mentions": {"user_ids": users}}).mentioned) == MOST_MENTIONED


def test_threads_and_answers() -> None:
    """What only falls back to an answer, for clients without threads, is none."""
    assert (read(in_thread("$root", text("a"))).thread, read(in_thread("$root", text("a"))).answers) == (
        "$root",
        None,
    )
    true_answer = read(in_thread("$root", text("a"), replies_to="$b"))
    assert (true_answer.thread, true_answer.answers) == ("$root", "$b")
    plain = read(reply("$b", text("> <@x:y> was\n> said\n\nno")))
    assert (plain.thread, plain.answers, plain.body) == (None, "$b", "no")
    assert read(reply("$b", text("> a quote of mine\nno"))).body == "> a quote of mine\nno"


def test_an_edit_says_what_is_new() -> None:
    """And what it edits."""
    said = edit("$old", formatted_text("new", mention(WORKER, "w"), mentions=[WORKER]))
    assert read(said) == Message("new", "m.text", (WORKER,), replaces="$old", pills=((WORKER, "w"),))


def test_reactions() -> None:
    """To what, and with what."""
    assert reacted(reaction("$a", "❌")) == ("$a", "❌")
    assert reacted(in_thread("$a", {})) is None
    assert reacted({"m.relates_to": {"rel_type": "m.annotation", "event_id": "$a", "key": 7}}) is None


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
    message = read(content)
    for event_id in (message.thread, message.answers, message.replaces):
        assert event_id is None or (event_id.startswith("$") and "\0" not in event_id)
    assert all(user.startswith("@") for user in message.mentioned)
    found = reacted(content)
    assert found is None or found[0].startswith("$")
