"""Trying one server after another to join, leave or knock."""

from collections.abc import Mapping
from typing import Any

import pytest

from federation.client.errors import PeerMalformed, PeerRefused, PeerUnreachable
from federation.events import Pdu
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import MembershipChange
from federation.memberships.remote_membership import (
    MAX_SERVERS,
    AllServersFailed,
    Handshake,
    HandshakeResult,
    PeerAnswer,
    PeerRequest,
    SendRequest,
    TemplateRequest,
    try_servers,
)
from tests.federation.standing import NOW, offered
from tests.support.rooms import BOB, Room, public_room, signer


def check(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> int | str:
    result: int | str = answer.get("result", "there is no result")
    return result


def handshake_for(room: Room, *servers: str) -> Handshake[int]:
    return try_servers(MembershipChange(room.room_id, BOB, "join", {}), servers, signer("b.example"), NOW, check)


def run_handshake(
    handshake: Handshake[int], answers: Mapping[str, tuple[PeerAnswer, PeerAnswer]]
) -> tuple[list[PeerRequest], HandshakeResult[int] | AllServersFailed]:
    """Run the handshake with two answers per server: to the template request and to the submitted event."""
    requests: list[PeerRequest] = []
    answer: PeerAnswer | None = None
    while True:
        try:
            request = next(handshake) if answer is None else handshake.send(answer)
        except StopIteration as end:
            return requests, end.value
        requests.append(request)
        answer = answers[request.server][isinstance(request, SendRequest)]


def refused(errcode: str | None, status: int = 403, text: str = "No.") -> PeerRefused:
    return PeerRefused("x.example", status, errcode, text)


def test_the_first_server_that_accepts_is_the_last_one_tried() -> None:
    """Template, completed event, result."""
    room = public_room("11")
    template = offered(MembershipChange(room.room_id, BOB, "join", {}), room)
    handshake = handshake_for(room, "a.example", "c.example")
    requests, done = run_handshake(handshake, {"a.example": (template, {"result": 5})})
    assert isinstance(done, HandshakeResult)
    assert requests == [TemplateRequest("a.example"), SendRequest("a.example", done.event)]
    assert (done.server, done.result, done.version) == ("a.example", 5, room.version)


def test_after_a_failure_the_next_server_is_tried() -> None:
    """Unreachable, refusing, with an invalid template, with an invalid response: each is tried once."""
    room = public_room("11")
    template = offered(MembershipChange(room.room_id, BOB, "join", {}), room)
    away: PeerError = PeerUnreachable("away.example", "is away")
    answers: dict[str, tuple[PeerAnswer, PeerAnswer]] = {
        "away.example": (away, {}),
        "refuses.example": (refused("M_FORBIDDEN"), {}),
        "lies.example": ({**template, "event": {}}, {}),
        "breaks.example": (template, away),
        "errs.example": (template, {}),
        "a.example": (template, {"result": 1}),
    }
    servers = ["b.example", *answers, "away.example"]
    requests, done = run_handshake(handshake_for(room, *servers), answers)
    assert isinstance(done, HandshakeResult)
    assert [request.server for request in requests if isinstance(request, TemplateRequest)] == list(answers)
    assert [request.server for request in requests if isinstance(request, SendRequest)] == [
        "breaks.example",
        "errs.example",
        "a.example",
    ]


def test_if_all_servers_fail_all_errors_are_returned() -> None:
    """In the order in which the servers were tried."""
    room = public_room("11")
    away: PeerError = PeerUnreachable("away.example", "is away")
    _, failed = run_handshake(
        handshake_for(room, "away.example", "lies.example"), {"away.example": (away, {}), "lies.example": ({}, {})}
    )
    assert isinstance(failed, AllServersFailed)
    assert failed.problems[0] is away
    assert isinstance(failed.problems[1], PeerMalformed)


def test_the_number_of_servers_tried_is_bounded() -> None:
    """A room may name thousands of servers."""
    room = public_room("11")
    names = [f"s{number}.example" for number in range(MAX_SERVERS + 5)]
    requests, failed = run_handshake(
        handshake_for(room, *names), {name: (refused("M_NOT_FOUND", 404), {}) for name in names}
    )
    assert len(requests) == MAX_SERVERS
    assert isinstance(failed, AllServersFailed)


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
def test_the_error_for_the_user(problems: list[PeerError], errcode: str, status: int) -> None:
    """The most meaningful refusal. An error about our own request is not the user's fault, so it becomes a
    502."""
    error = AllServersFailed(tuple(problems)).as_error()
    assert (error.errcode, error.status) == (errcode, status)


def test_the_error_text_of_the_server_is_returned() -> None:
    """ "The error should be passed through to clients so that they may give better feedback to users." """
    assert AllServersFailed((refused("M_FORBIDDEN", text="Members only."),)).as_error().text == "Members only."
    assert "403" in AllServersFailed((refused("M_FORBIDDEN", text=""),)).as_error().text
