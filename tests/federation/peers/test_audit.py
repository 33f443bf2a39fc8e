"""What is written down of a request."""

import json
from typing import Any

import pytest

from federation.client.errors import (
    PeerMalformed,
    PeerNotAllowed,
    PeerRefused,
    PeerTimedOut,
    PeerTlsFailure,
    PeerUnreachable,
)
from federation.client.requests import request_target
from federation.events.received import Accepted, Dropped, Rejected, SoftFailed
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import MAX_BYTES
from federation.peers.acts import Act, act_of
from federation.peers.audit import (
    LONGEST_DETAIL,
    Ending,
    Named,
    cut,
    cut_detail,
    ending_of_problem,
    ending_of_refusal,
    named,
    named_by_transaction,
    places_in,
    query_in,
    transaction_detail,
)

V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"
ALICE, BOB, ROOM = "@alice:a.example", "@bob:b.example", "!room:a.example"


def act(method: str, template: str) -> Act:
    found = act_of(method, template)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("method", "template", "places", "query", "content", "expected"),
    [
        ("GET", f"{V1}/make_join/{{}}/{{}}", {"room_id": ROOM, "user_id": BOB}, {"ver": "12"}, None,
         Named(BOB, ROOM)),
        ("GET", f"{V1}/make_join/{{}}/{{}}", {"roomId": ROOM, "userId": BOB}, {}, None, Named(BOB, ROOM)),
        ("PUT", f"{V2}/send_join/{{}}/{{}}", {"room_id": ROOM, "event_id": "$e"}, {}, {"sender": BOB},
         Named(BOB, ROOM, "$e")),
        ("PUT", f"{V2}/invite/{{}}/{{}}", {"room_id": ROOM, "event_id": "$e"}, {},
         {"event": {"sender": BOB, "state_key": ALICE}}, Named(ALICE, ROOM, "$e")),
        ("GET", f"{V1}/state_ids/{{}}", {"room_id": ROOM}, {"event_id": "$e"}, None, Named(None, ROOM, "$e")),
        ("GET", f"{V1}/query/profile", {}, {"user_id": ALICE, "field": "x"}, None, Named(ALICE)),
        ("GET", f"{V1}/query/directory", {}, {"room_alias": "#a:a.example"}, None,
         Named(None, None, "#a:a.example")),
        ("GET", f"{V1}/media/download/{{}}", {"media_id": "abc"}, {}, None, Named(None, None, "abc")),
        ("PUT", f"{V1}/send/{{}}", {"txn_id": "7"}, {}, {"pdus": []}, Named(None, None, "7")),
        ("POST", f"{V1}/user/keys/query", {}, {}, {"device_keys": {ALICE: []}}, Named(ALICE)),
        ("POST", f"{V1}/user/keys/query", {}, {}, {"device_keys": {ALICE: [], BOB: []}}, Named()),
        ("POST", f"{V1}/user/keys/claim", {}, {}, {"one_time_keys": {ALICE: {}}}, Named(ALICE)),
        ("POST", "/_matrix/key/v2/query", {}, {}, {"server_keys": {"a.example": {}}},
         Named(None, None, "a.example")),
        ("GET", "/_matrix/key/v2/query/{}", {"server_name": "a.example"}, {}, None,
         Named(None, None, "a.example")),
    ],
)  # fmt: skip
def test_whom_and_what_a_request_is_about(
    method: str,
    template: str,
    places: dict[str, str],
    query: dict[str, str],
    content: dict[str, Any] | None,
    expected: Named,
) -> None:
    """From its path, the identifiers in its query, and what its sender signed."""
    assert named(act(method, template), places, query, content) == expected


@pytest.mark.parametrize(
    "content", [{}, {"sender": 5}, {"sender": {}}, {"event": []}, {"event": {"state_key": None}}]
)
def test_content_that_is_not_what_it_should_be_names_nobody(content: dict[str, Any]) -> None:
    """It is another server's, and nobody has looked at it."""
    for template in (f"{V2}/send_join/{{}}/{{}}", f"{V2}/invite/{{}}/{{}}"):
        assert named(act("PUT", template), {}, {}, content) == Named()


def test_no_secret_gets_in() -> None:
    """A token, a signature, what somebody said: nothing of a request but identifiers."""
    query = {"access_token": "secret", "user_id": ALICE, "sig": "secret", "minimum_valid_until_ts": "secret"}
    content = {
        "sender": BOB,
        "content": {"body": "secret"},
        "signatures": {"b.example": {"ed25519:1": "secret"}},
        "event": {"state_key": ALICE, "content": {"reason": "secret"}},
        "invite_room_state": ["secret"],
        "one_time_keys": {ALICE: {"secret": "secret"}},
    }
    for method, template in (
        ("GET", f"{V1}/openid/userinfo"),
        ("PUT", f"{V2}/send_join/{{}}/{{}}"),
        ("PUT", f"{V2}/invite/{{}}/{{}}"),
        ("POST", f"{V1}/user/keys/claim"),
    ):
        written = named(act(method, template), {}, query, content)
        assert "secret" not in json.dumps([written.user_id, written.room_id, written.subject])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 1000, "x" * MAX_BYTES),
        ("a\0b", "a\ufffdb"),
        ("a\ud800b", "a?b"),
        ("", None),
        (5, None),
        (None, None),
    ],
)
def test_a_column_holds_what_it_can(text: object, expected: str | None) -> None:
    """No longer than an identifier, without NUL, and text."""
    assert cut(text) == expected


def test_a_detail_is_one_line() -> None:
    """And not a long one."""
    assert cut_detail("a\nb\0c\ud800") == "a b c "
    assert cut_detail("x" * 10_000) == "x" * LONGEST_DETAIL
    assert cut_detail(None) is None


def test_what_our_own_requests_name() -> None:
    """Read back from what is sent, whatever stands in it."""
    target = request_target(
        f"{V1}/make_join/{{roomId}}/{{userId}}",
        query=[("ver", "12"), ("event_id", "$a/+b")],
        roomId="!r/ö?:a.example",
        userId=BOB,
    )
    assert places_in(target.template, target.uri) == {"roomId": "!r/ö?:a.example", "userId": BOB}
    assert query_in(target.uri)["event_id"] == "$a/+b"
    plain = request_target(f"{V1}/version")
    assert (places_in(plain.template, plain.uri), query_in(plain.uri)) == ({}, {})


@pytest.mark.parametrize(
    ("status", "authenticated", "ending"),
    [
        (400, True, Ending.REFUSED),
        (403, True, Ending.REFUSED),
        (403, False, Ending.UNAUTHENTICATED),
        (401, False, Ending.UNAUTHENTICATED),
        (429, True, Ending.RATE_LIMITED),
        (429, False, Ending.RATE_LIMITED),
        (500, True, Ending.FAILED),
        (502, False, Ending.FAILED),
    ],
)
def test_how_a_refused_request_ended(status: int, authenticated: bool, ending: Ending) -> None:
    """With the words that the other server was given."""
    refusal = MatrixError("M_X", "No.", status)
    assert ending_of_refusal(refusal, authenticated=authenticated) == (ending, f"{status} M_X: No.")


@pytest.mark.parametrize(
    ("problem", "ending", "detail"),
    [
        (None, Ending.DONE, None),
        (PeerRefused("b", 403, "M_FORBIDDEN", "No."), Ending.REFUSED, "answered 403 M_FORBIDDEN: No."),
        (PeerRefused("b", 429, None, ""), Ending.RATE_LIMITED, "answered 429 without a Matrix error"),
        (PeerRefused("b", 500, None, ""), Ending.FAILED, "answered 500 without a Matrix error"),
        (PeerNotAllowed("b", "is not allowed"), Ending.NOT_ALLOWED, "is not allowed"),
        (PeerUnreachable("b", "is away"), Ending.UNREACHABLE, "is away"),
        (PeerTlsFailure("b", "is not who it says"), Ending.UNREACHABLE, "is not who it says"),
        (PeerTimedOut("b", "is slow"), Ending.TIMED_OUT, "is slow"),
        (PeerMalformed("b", "talks nonsense"), Ending.MALFORMED, "talks nonsense"),
        (PeerError("b", "is odd"), Ending.MALFORMED, "is odd"),
        (TimeoutError(), Ending.ABANDONED, None),
    ],
)
def test_how_a_request_of_ours_ended(
    problem: BaseException | None, ending: Ending, detail: str | None
) -> None:
    """With the problem that its server had."""
    assert ending_of_problem(problem) == (ending, detail)


def test_a_transaction_is_of_the_one_room_that_it_is_about() -> None:
    """One row a transaction: events of several rooms are of none."""
    there = {"room_id": ROOM}
    assert named_by_transaction("1", [there, there]) == Named(None, ROOM, "1")
    for pdus in ([], [there, {"room_id": "!b:b.example"}], [there, {}], [{"room_id": 5}], ["x"]):
        assert named_by_transaction("1", pdus) == Named(None, None, "1")


def test_what_became_of_a_transaction_is_counted() -> None:
    """By verdict, and how many EDUs there were."""
    refused = Rejected("5", "no"), Dropped("no")
    mixed = [Accepted(), Accepted(), SoftFailed("6", "no"), *refused]
    assert transaction_detail(mixed, 0) == "2 accepted, 1 soft-failed, 1 rejected, 1 dropped"
    assert transaction_detail([Accepted()], 3) == "1 accepted; 3 EDUs"
    assert transaction_detail([], 1) == "1 EDUs"
    assert transaction_detail([], 0) == "empty"
