"""Interpreting responses."""

import json

import pytest

from appservice.homeserver.responses import MAX_TEXT, RETRY_AFTER_MS, InvalidResponse, interpret_response
from federation.matrix.errors import MatrixError


def interpret(status: int, body: object, **more: bool) -> tuple[str, int] | dict[str, object] | str:
    """Errcode and status of a refusal, the body, or the reason of an invalid response."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    match interpret_response(status, data, dict, **more):
        case MatrixError() as refused:
            return refused.errcode, refused.status
        case InvalidResponse(reason):
            return reason
        case found:
            return found


def test_success_returns_the_body() -> None:
    """If it is a JSON object."""
    assert interpret(200, {"event_id": "$1"}) == {"event_id": "$1"}
    assert interpret(201, {}) == {}
    nothing: tuple[object, ...] = ([], "x", 1, None, b"", b"{", b"<html>", b"\xff", b"[" * 5000)
    for body in nothing:
        assert interpret(200, body) == "its response is not a JSON object"
    assert interpret_response(200, b"[1]", list) == [1]
    assert interpret_response(200, b"{}", list) == InvalidResponse("its response is not a JSON array")


def test_refusals_have_errcode_and_text() -> None:
    """Unprintable characters are removed."""
    refused = interpret_response(403, b'{"errcode": "M_FORBIDDEN", "error": "You are\\nnot in the room."}', dict)
    assert isinstance(refused, MatrixError)
    assert (refused.errcode, refused.status, refused.text) == ("M_FORBIDDEN", 403, "You arenot in the room.")
    silent = interpret_response(400, json.dumps({"errcode": "M_X", "error": 5}).encode(), dict)
    assert isinstance(silent, MatrixError)
    assert silent.text == "The homeserver gave no reason."
    long = interpret_response(400, json.dumps({"errcode": "M_X", "error": "x" * 9000}).encode(), dict)
    assert isinstance(long, MatrixError)
    assert len(long.text) == MAX_TEXT


@pytest.mark.parametrize(
    ("status", "body", "means"),
    [
        # Failures of other servers, and of media that is not available yet.
        (502, {"errcode": "M_UNKNOWN"}, ("M_UNKNOWN", 502)),
        (504, {"errcode": "M_NOT_YET_UPLOADED"}, ("M_NOT_YET_UPLOADED", 504)),
        (302, {"errcode": "M_FOUND"}, ("M_FOUND", 502)),
        # Failures of the homeserver, which are transient.
        (500, {"errcode": "M_UNKNOWN"}, "HTTP status 500, M_UNKNOWN"),
        (503, {"errcode": "M_UNKNOWN"}, "HTTP status 503, M_UNKNOWN"),
        (502, b"<html>Bad Gateway</html>", "HTTP status 502"),
        (404, b"404 page not found", "HTTP status 404"),
        (403, b"", "HTTP status 403"),
        (302, b"", "HTTP status 302"),
        (403, {"errcode": 5}, "HTTP status 403"),
        (403, {"errcode": "x" * 200}, "HTTP status 403"),
        (403, {"errcode": "M_\n"}, "HTTP status 403"),
        (403, [], "HTTP status 403"),
        # Errors of a reverse proxy about the request.
        (413, b"<html>", ("M_TOO_LARGE", 413)),
        (400, b"<html>", ("M_UNKNOWN", 400)),
        (414, b"<html>", ("M_UNKNOWN", 414)),
        # Synapse's errcode for banned users.
        (403, {"errcode": "M_BAD_STATE"}, ("M_FORBIDDEN", 403)),
        (400, {"errcode": "M_BAD_STATE"}, ("M_BAD_STATE", 400)),
    ],
)
def test_permanent_and_transient_failures(status: int, body: object, means: object) -> None:
    """A request that the homeserver never processed does not count as refused."""
    assert interpret(status, body) == means


def test_unknown_as_token_is_transient() -> None:
    """The operator has to restore the registration; other tokens concern their owners."""
    body = {"errcode": "M_UNKNOWN_TOKEN"}
    assert interpret(401, body) == "it no longer knows the registration's as_token, M_UNKNOWN_TOKEN"
    assert interpret(401, body, own_token=False) == ("M_UNKNOWN_TOKEN", 401)


@pytest.mark.parametrize(
    ("status", "more", "retry_after_ms"),
    [
        (429, {"retry_after_ms": 250}, 250),
        (400, {"retry_after_ms": 250}, 250),
        (429, {}, RETRY_AFTER_MS),
        (429, {"retry_after_ms": "soon"}, RETRY_AFTER_MS),
        (429, {"retry_after_ms": True}, RETRY_AFTER_MS),
        (429, {"retry_after_ms": -5}, 0),
    ],
)
def test_rate_limit_names_the_pause(status: int, more: dict[str, object], retry_after_ms: int) -> None:
    """A default applies if it does not."""
    found = interpret_response(
        status, json.dumps({"errcode": "M_LIMIT_EXCEEDED", "error": "Slow", **more}).encode(), dict
    )
    assert isinstance(found, MatrixError)
    assert (found.errcode, found.status, dict(found.fields)) == (
        "M_LIMIT_EXCEEDED",
        429,
        {"retry_after_ms": retry_after_ms},
    )
