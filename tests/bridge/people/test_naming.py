"""Whether words could call somebody."""

from typing import Any

import pytest

from bridge.people.naming import LONGEST_BODY, MOST_MEMBERS, calls_nobody, names_of, without_list
from federation.message_content import edit, text
from federation.room_event import Member

NAMES = names_of([Member("@alice:a", "join", "Alice Liddell"), Member("@bob:b", "join", None)])


@pytest.mark.parametrize("body", ["thank you, ALICE", "ask alice liddell", "bobby", "@room: done", "Bob"])
def test_who_is_named_could_be_called(body: str) -> None:
    """Then it is said that nobody is: by a user's name or the one that is shown, in whatever case, and by the
    name of all. Part of a word is looked at by nobody, and costs nothing."""
    assert without_list(text(body), NAMES) == text(body)


@pytest.mark.parametrize("body", ["done", "", "al ice"])
def test_where_nobody_is_named_it_need_not_be_said(body: str) -> None:
    assert without_list(text(body), NAMES) == {"msgtype": "m.text", "body": body}


@pytest.mark.parametrize(
    "content",
    [
        text("done", mentions=["@alice:a"]),
        edit("$1", text("done")),
        text("x" * (LONGEST_BODY + 1)),
        {"msgtype": "m.text", "body": "done"},
        {"msgtype": "m.text", "body": 5, "m.mentions": {}},
    ],
)
def test_what_is_anything_else_stays(content: dict[str, Any]) -> None:
    assert not calls_nobody(content)
    assert without_list(content, NAMES) == content


def test_where_names_are_not_known_it_is_said() -> None:
    """In a large room, and where a name is a pattern to others."""
    many = [Member(f"@user-{n}:a", "join", None) for n in range(MOST_MEMBERS + 1)]
    assert names_of(many) is None
    assert names_of(many[1:]) is not None
    assert names_of([Member("@al*:a", "join", None)]) is None
    assert names_of([Member("@alice:a", "join", "Al?ce")]) is None
    assert without_list(text("done"), None) == text("done")
    assert "" not in (names_of([Member("@alice:a", "join", "")]) or {""})
