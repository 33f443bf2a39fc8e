"""Asking one server after another to be let in, or out."""

from collections.abc import Mapping
from typing import Any

import pytest

from federation.client.errors import PeerMalformed, PeerRefused, PeerUnreachable
from federation.events import Pdu
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import Wish
from federation.memberships.remote_membership import (
    MOST_SERVERS,
    Answer,
    AskTemplate,
    Conversation,
    Done,
    HandIn,
    NobodyHelped,
    Question,
    ask,
)
from tests.federation.standing import NOW, offered
from tests.support.rooms import BOB, Room, public_room, signer


def check(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> int | str:
    result: int | str = answer.get("result", "there is no result")
    return result


def conversation(room: Room, *servers: str) -> Conversation[int]:
    return ask(Wish(room.room_id, BOB, "join", {}), servers, signer("b.example"), NOW, check)


def hold(
    talk: Conversation[int], answers: Mapping[str, tuple[Answer, Answer]]
) -> tuple[list[Question], Done[int] | NobodyHelped]:
    """Every server has an answer to either question."""
    asked: list[Question] = []
    answer: Answer | None = None
    while True:
        try:
            question = next(talk) if answer is None else talk.send(answer)
        except StopIteration as end:
            return asked, end.value
        asked.append(question)
        answer = answers[question.server][isinstance(question, HandIn)]


def refused(errcode: str | None, status: int = 403, text: str = "No.") -> PeerRefused:
    return PeerRefused("x.example", status, errcode, text)


def test_the_first_server_that_lets_us_is_the_last_that_is_asked() -> None:
    """Template, completed event, result."""
    room = public_room("11")
    template = offered(Wish(room.room_id, BOB, "join", {}), room)
    talk = conversation(room, "a.example", "c.example")
    asked, done = hold(talk, {"a.example": (template, {"result": 5})})
    assert isinstance(done, Done)
    assert asked == [AskTemplate("a.example"), HandIn("a.example", done.event)]
    assert (done.server, done.result, done.version) == ("a.example", 5, room.version)


def test_whoever_cannot_help_is_followed_by_the_next() -> None:
    """Unreachable, refusing, with a wrong template, with a wrong answer to the event: each is tried once."""
    room = public_room("11")
    template = offered(Wish(room.room_id, BOB, "join", {}), room)
    away: PeerError = PeerUnreachable("away.example", "is away")
    answers: dict[str, tuple[Answer, Answer]] = {
        "away.example": (away, {}),
        "refuses.example": (refused("M_FORBIDDEN"), {}),
        "lies.example": ({**template, "event": {}}, {}),
        "breaks.example": (template, away),
        "errs.example": (template, {}),
        "a.example": (template, {"result": 1}),
    }
    servers = ["b.example", *answers, "away.example"]
    asked, done = hold(conversation(room, *servers), answers)
    assert isinstance(done, Done)
    assert [question.server for question in asked if isinstance(question, AskTemplate)] == list(answers)
    assert [question.server for question in asked if isinstance(question, HandIn)] == [
        "breaks.example",
        "errs.example",
        "a.example",
    ]


def test_when_nobody_helps_all_problems_are_told() -> None:
    """In the order in which they came up."""
    room = public_room("11")
    away: PeerError = PeerUnreachable("away.example", "is away")
    _, nobody = hold(
        conversation(room, "away.example", "lies.example"),
        {"away.example": (away, {}), "lies.example": ({}, {})},
    )
    assert isinstance(nobody, NobodyHelped)
    assert nobody.problems[0] is away
    assert isinstance(nobody.problems[1], PeerMalformed)


def test_not_everybody_is_asked() -> None:
    """A room may name thousands of servers."""
    room = public_room("11")
    names = [f"s{number}.example" for number in range(MOST_SERVERS + 5)]
    asked, nobody = hold(
        conversation(room, *names), {name: (refused("M_NOT_FOUND", 404), {}) for name in names}
    )
    assert len(asked) == MOST_SERVERS
    assert isinstance(nobody, NobodyHelped)


@pytest.mark.parametrize(
    ("problems", "errcode", "status"),
    [
        ([], "M_NOT_FOUND", 404),
        ([refused("M_NOT_FOUND", 404), refused("M_NOT_FOUND", 404)], "M_NOT_FOUND", 404),
        ([refused("M_UNABLE_TO_GRANT_JOIN", 400), refused("M_FORBIDDEN")], "M_FORBIDDEN", 403),
        ([refused("M_UNABLE_TO_AUTHORISE_JOIN", 400)], "M_UNABLE_TO_AUTHORISE_JOIN", 400),
        ([refused("M_INCOMPATIBLE_ROOM_VERSION", 400)], "M_INCOMPATIBLE_ROOM_VERSION", 400),
        ([refused("M_INVALID_PARAM", 400)], "M_UNKNOWN", 502),
        ([refused("M_MISSING_PARAM", 400)], "M_UNKNOWN", 502),
        ([refused("M_FORBIDDEN", 500)], "M_UNKNOWN", 502),
        ([PeerUnreachable("away.example", "is away"), refused(None, 404)], "M_UNKNOWN", 502),
        ([PeerUnreachable("away.example", "is away")], "M_UNKNOWN", 502),
    ],
)
def test_what_the_person_is_told(problems: list[PeerError], errcode: str, status: int) -> None:
    """The refusal that says most to them; what speaks of our own request is our fault, a 502."""
    error = NobodyHelped(tuple(problems)).as_error()
    assert (error.errcode, error.status) == (errcode, status)


def test_the_servers_own_words_are_passed_on() -> None:
    """ "The error should be passed through to clients so that they may give better feedback to users." """
    assert NobodyHelped((refused("M_FORBIDDEN", text="Members only."),)).as_error().text == "Members only."
    assert "403" in NobodyHelped((refused("M_FORBIDDEN", text=""),)).as_error().text
