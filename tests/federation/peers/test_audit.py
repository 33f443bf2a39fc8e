"""What the audit records of a request."""

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
from federation.peers.actions import Action, action_of
from federation.peers.audit import (
    MAX_DETAIL_LENGTH,
    AuditOutcome,
    Identifiers,
    identifiers_of,
    outcome_of_error,
    outcome_of_refusal,
    path_parameters,
    query_parameters,
    transaction_detail,
    transaction_identifiers,
    truncate,
    truncate_detail,
)

V1, V2 = "/_matrix/federation/v1", "/_matrix/federation/v2"
ALICE, BOB, ROOM = "@alice:a.example", "@bob:b.example", "!room:a.example"


def action(method: str, template: str) -> Action:
    found = action_of(method, template)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("method", "template", "parameters", "query", "content", "expected"),
    [
        ("GET", f"{V1}/make_join/{{}}/{{}}", {"room_id": ROOM, "user_id": BOB}, {"ver": "12"}, None,
         Identifiers(BOB, ROOM)),
        ("GET", f"{V1}/make_join/{{}}/{{}}", {"roomId": ROOM, "userId": BOB}, {}, None,
         Identifiers(BOB, ROOM)),
        ("PUT", f"{V2}/send_join/{{}}/{{}}", {"room_id": ROOM, "event_id": "$e"}, {}, {"sender": BOB},
         Identifiers(BOB, ROOM, "$e")),
        ("PUT", f"{V2}/invite/{{}}/{{}}", {"room_id": ROOM, "event_id": "$e"}, {},
         {"event": {"sender": BOB, "state_key": ALICE}}, Identifiers(ALICE, ROOM, "$e")),
        ("GET", f"{V1}/state_ids/{{}}", {"room_id": ROOM}, {"event_id": "$e"}, None,
         Identifiers(None, ROOM, "$e")),
        ("GET", f"{V1}/query/profile", {}, {"user_id": ALICE, "field": "x"}, None, Identifiers(ALICE)),
        ("GET", f"{V1}/query/directory", {}, {"room_alias": "#a:a.example"}, None,
         Identifiers(None, None, "#a:a.example")),
        ("GET", f"{V1}/media/download/{{}}", {"media_id": "abc"}, {}, None, Identifiers(None, None, "abc")),
        ("PUT", f"{V1}/send/{{}}", {"txn_id": "7"}, {}, {"pdus": []}, Identifiers(None, None, "7")),
        ("POST", f"{V1}/user/keys/query", {}, {}, {"device_keys": {ALICE: []}}, Identifiers(ALICE)),
        ("POST", f"{V1}/user/keys/query", {}, {}, {"device_keys": {ALICE: [], BOB: []}}, Identifiers()),
        ("POST", f"{V1}/user/keys/claim", {}, {}, {"one_time_keys": {ALICE: {}}}, Identifiers(ALICE)),
        ("POST", "/_matrix/key/v2/query", {}, {}, {"server_keys": {"a.example": {}}},
         Identifiers(None, None, "a.example")),
        ("GET", "/_matrix/key/v2/query/{}", {"server_name": "a.example"}, {}, None,
         Identifiers(None, None, "a.example")),
    ],
)  # fmt: skip
def test_the_identifiers_of_a_request(
    method: str,
    template: str,
    parameters: dict[str, str],
    query: dict[str, str],
    content: dict[str, Any] | None,
    expected: Identifiers,
) -> None:
    """From the path, the query parameters and the signed content."""
    assert identifiers_of(action(method, template), parameters, query, content) == expected


@pytest.mark.parametrize("content", [{}, {"sender": 5}, {"sender": {}}, {"event": []}, {"event": {"state_key": None}}])
def test_malformed_content_has_no_identifiers(content: dict[str, Any]) -> None:
    """The content comes from another server and has not been validated."""
    for template in (f"{V2}/send_join/{{}}/{{}}", f"{V2}/invite/{{}}/{{}}"):
        assert identifiers_of(action("PUT", template), {}, {}, content) == Identifiers()


def test_no_secret_is_recorded() -> None:
    """No token, no signature, no message: only identifiers."""
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
        written = identifiers_of(action(method, template), {}, query, content)
        assert "secret" not in json.dumps([written.user_id, written.room_id, written.subject])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x" * 1000, "x" * MAX_BYTES), ("a\0b", "a\ufffdb"), ("a\ud800b", "a?b"), ("", None), (5, None), (None, None)],
)
def test_values_are_truncated(text: object, expected: str | None) -> None:
    """No longer than an identifier, without NUL and surrogates."""
    assert truncate(text) == expected


def test_a_detail_is_one_line() -> None:
    """And its length is limited."""
    assert truncate_detail("a\nb\0c\ud800") == "a b c "
    assert truncate_detail("x" * 10_000) == "x" * MAX_DETAIL_LENGTH
    assert truncate_detail(None) is None


def test_the_parameters_of_an_outgoing_request() -> None:
    """They are decoded from the target that is sent."""
    target = request_target(
        f"{V1}/make_join/{{roomId}}/{{userId}}",
        query=[("ver", "12"), ("event_id", "$a/+b")],
        roomId="!r/ö?:a.example",
        userId=BOB,
    )
    assert path_parameters(target.template, target.uri) == {"roomId": "!r/ö?:a.example", "userId": BOB}
    assert query_parameters(target.uri)["event_id"] == "$a/+b"
    plain = request_target(f"{V1}/version")
    assert (path_parameters(plain.template, plain.uri), query_parameters(plain.uri)) == ({}, {})


@pytest.mark.parametrize(
    ("status", "authenticated", "outcome"),
    [
        (400, True, AuditOutcome.REFUSED),
        (403, True, AuditOutcome.REFUSED),
        (403, False, AuditOutcome.UNAUTHENTICATED),
        (401, False, AuditOutcome.UNAUTHENTICATED),
        (429, True, AuditOutcome.RATE_LIMITED),
        (429, False, AuditOutcome.RATE_LIMITED),
        (500, True, AuditOutcome.FAILED),
        (502, False, AuditOutcome.FAILED),
    ],
)
def test_the_outcome_of_a_refused_request(status: int, authenticated: bool, outcome: AuditOutcome) -> None:
    """With the error that was returned."""
    refusal = MatrixError("M_X", "No.", status)
    assert outcome_of_refusal(refusal, authenticated=authenticated) == (outcome, f"{status} M_X: No.")


@pytest.mark.parametrize(
    ("problem", "outcome", "detail"),
    [
        (None, AuditOutcome.DONE, None),
        (PeerRefused("b", 403, "M_FORBIDDEN", "No."), AuditOutcome.REFUSED, "answered 403 M_FORBIDDEN: No."),
        (PeerRefused("b", 429, None, ""), AuditOutcome.RATE_LIMITED, "answered 429 without a Matrix error"),
        (PeerRefused("b", 500, None, ""), AuditOutcome.FAILED, "answered 500 without a Matrix error"),
        (PeerNotAllowed("b", "is not allowed"), AuditOutcome.NOT_ALLOWED, "is not allowed"),
        (PeerUnreachable("b", "is away"), AuditOutcome.UNREACHABLE, "is away"),
        (PeerTlsFailure("b", "is not who it says"), AuditOutcome.UNREACHABLE, "is not who it says"),
        (PeerTimedOut("b", "is slow"), AuditOutcome.TIMED_OUT, "is slow"),
        (PeerMalformed("b", "talks nonsense"), AuditOutcome.MALFORMED, "talks nonsense"),
        (PeerError("b", "is odd"), AuditOutcome.MALFORMED, "is odd"),
        (TimeoutError(), AuditOutcome.ABANDONED, None),
    ],
)
def test_the_outcome_of_an_outgoing_request(
    problem: BaseException | None, outcome: AuditOutcome, detail: str | None
) -> None:
    """With the problem of the other server."""
    assert outcome_of_error(problem) == (outcome, detail)


def test_a_transaction_has_a_room_only_if_all_its_events_are_of_it() -> None:
    """One entry per transaction."""
    there = {"room_id": ROOM}
    assert transaction_identifiers("1", [there, there]) == Identifiers(None, ROOM, "1")
    for pdus in ([], [there, {"room_id": "!b:b.example"}], [there, {}], [{"room_id": 5}], ["x"]):
        assert transaction_identifiers("1", pdus) == Identifiers(None, None, "1")


def test_the_results_of_a_transaction_are_counted() -> None:
    """By verdict, with the number of EDUs."""
    refused = Rejected("5", "no"), Dropped("no")
    mixed = [Accepted(), Accepted(), SoftFailed("6", "no"), *refused]
    assert transaction_detail(mixed, 0) == "2 accepted, 1 soft-failed, 1 rejected, 1 dropped"
    assert transaction_detail([Accepted()], 3) == "1 accepted; 3 EDUs"
    assert transaction_detail([], 1) == "1 EDUs"
    assert transaction_detail([], 0) == "empty"
