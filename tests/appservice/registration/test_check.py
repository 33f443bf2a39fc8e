"""Problems between this node and the homeserver."""

from dataclasses import replace
from typing import Any

import pytest

from appservice.registration.check import (
    NoResponse,
    Problem,
    RequestResult,
    Response,
    ping_path,
    ping_problem,
    problem,
    register_body,
    register_problem,
    versions_problem,
    whoami_problem,
)
from appservice.registration.registration import make
from tests.appservice.registration.test_registration import SECRETS, WANTED

REGISTRATION = make(WANTED, SECRETS)
NODE = WANTED.namespaces.node_user
URL = "http://127.0.0.1:8008"
ME = f"@{SECRETS.sender_localpart}:their.server"


def refused(http: int, errcode: str, **more: Any) -> Response:
    return Response(http, {"errcode": errcode, "error": "No.", **more})


def test_no_problem() -> None:
    """The result is None."""
    assert versions_problem(Response(200, {"versions": ["v1.7"]}), URL) is None
    assert whoami_problem(Response(200, {"user_id": ME}), REGISTRATION, WANTED) is None
    assert register_problem(Response(200, {"user_id": NODE}), NODE, WANTED.namespaces) is None
    assert register_problem(refused(400, "M_USER_IN_USE"), NODE, WANTED.namespaces) is None
    assert ping_problem(Response(200, {"duration_ms": 3}), REGISTRATION, was_received=True) is None
    assert register_body(NODE)["username"] == "_agent_palaver"
    assert ping_path(REGISTRATION) == "/_matrix/client/v1/appservice/palaver/ping"


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoResponse("Connection refused"), "does not respond at http://127.0.0.1:8008 (Connection refused)"),
        (Response(404), "is not a homeserver"),
        (Response(200), "is not a homeserver"),
        (Response(302), "is not a homeserver"),
        (Response(502), "does not respond at http://127.0.0.1:8008 (HTTP status 502)"),
    ],
)
def test_not_a_homeserver(heard: RequestResult, part: str) -> None:
    """Or no response."""
    assert part in (versions_problem(heard, URL) or "")


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoResponse("the request timed out"), "the request timed out"),
        (refused(401, "M_UNKNOWN_TOKEN"), "does not know the as_token (M_UNKNOWN_TOKEN)"),
        (refused(403, "M_FORBIDDEN"), "does not know the as_token (M_FORBIDDEN)"),
        (refused(502, "M_UNKNOWN"), "did not name the owner of the as_token (M_UNKNOWN)"),
        (Response(502), "HTTP status 502"),
        (Response(200, {"user_id": 7}), "did not name the owner"),
        (Response(200, {"user_id": ME.replace("their", "other")}), "server name is other.server"),
        (Response(200, {"user_id": "no id"}), "server name is"),
        (Response(200, {"user_id": "@bot:their.server"}), "assigns the as_token to @bot:their.server"),
    ],
)
def test_unknown_as_token(heard: RequestResult, part: str) -> None:
    """The registration is missing, was edited, or the domain differs: each has its sentence."""
    found = whoami_problem(heard, REGISTRATION, WANTED) or ""
    assert part in found
    assert SECRETS.as_token not in found


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoResponse("the request timed out"), "@_agent_palaver:their.server (the request timed out)"),
        (refused(400, "M_EXCLUSIVE"), "reserves users that begin with _agent_ too"),
        (refused(500, "M_UNKNOWN"), "refuses to register @_agent_palaver:their.server (M_UNKNOWN)"),
        (Response(502), "(HTTP status 502)"),
    ],
)
def test_refused_user_registration(heard: RequestResult, part: str) -> None:
    """Another application service has the names, with a sentence of its own."""
    assert part in (register_problem(heard, NODE, WANTED.namespaces) or "")


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoResponse("the request timed out"), "the request timed out"),
        (Response(200, {}), "Another program"),
        (refused(400, "M_URL_NOT_SET"), "has no url"),
        (refused(502, "M_CONNECTION_FAILED"), "cannot reach this node at http://127.0.0.1:7678"),
        (refused(504, "M_CONNECTION_TIMEOUT"), "cannot reach this node"),
        (refused(502, "M_BAD_STATUS", status=403, body="{}"), "refuses the homeserver's request (status 403)"),
        (refused(403, "M_FORBIDDEN"), "not for the registration “palaver”"),
        (refused(500, "M_UNKNOWN"), "(M_UNKNOWN)"),
        (Response(500, {"errcode": "\x1b[31mM_RED" + "x" * 900}), "[31mM_RED"),
    ],
)
def test_failed_ping(heard: RequestResult, part: str) -> None:
    """With the homeserver's reason and advice, in one line."""
    found = ping_problem(heard, REGISTRATION, was_received=False) or ""
    assert part in found
    assert found.isprintable()
    assert len(found) < 500


def test_ping_answered_by_another_program() -> None:
    """Another process has the port."""
    moved = replace(REGISTRATION, url="http://10.0.0.1:1")
    assert "10.0.0.1:1" in (ping_problem(Response(200), moved, was_received=False) or "")


@pytest.mark.parametrize(
    ("heard", "passes"),
    [
        (NoResponse("Connection refused"), True),
        (Response(502), True),
        (Response(503), True),
        (refused(503, "M_UNKNOWN"), True),
        (refused(429, "M_LIMIT_EXCEEDED"), True),
        (refused(502, "M_CONNECTION_FAILED"), False),
        (refused(500, "M_UNKNOWN"), False),
        (refused(401, "M_UNKNOWN_TOKEN"), False),
        (Response(404), False),
    ],
)
def test_transient_problems(heard: RequestResult, passes: bool) -> None:
    """A homeserver that is starting is waited for; a mistake is not."""
    assert problem("It is wrong.", heard) == Problem("It is wrong.", passes)
    assert problem(None, heard) is None
