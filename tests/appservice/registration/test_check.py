"""What is wrong between us and the homeserver."""

from dataclasses import replace
from typing import Any

import pytest

from appservice.registration.check import (
    Answer,
    Heard,
    NoAnswer,
    Wrong,
    ping_path,
    register_body,
    wrong,
    wrong_ping,
    wrong_register,
    wrong_versions,
    wrong_whoami,
)
from appservice.registration.registration import make
from tests.appservice.registration.test_registration import SECRETS, WANTED

REGISTRATION = make(WANTED, SECRETS)
NODE = WANTED.namespaces.node_user
URL = "http://127.0.0.1:8008"
ME = f"@{SECRETS.sender_localpart}:their.server"


def refused(http: int, errcode: str, **more: Any) -> Answer:
    return Answer(http, {"errcode": errcode, "error": "No.", **more})


def test_all_is_well() -> None:
    """Then nothing is said."""
    assert wrong_versions(Answer(200, {"versions": ["v1.7"]}), URL) is None
    assert wrong_whoami(Answer(200, {"user_id": ME}), REGISTRATION, WANTED) is None
    assert wrong_register(Answer(200, {"user_id": NODE}), NODE, WANTED.namespaces) is None
    assert wrong_register(refused(400, "M_USER_IN_USE"), NODE, WANTED.namespaces) is None
    assert wrong_ping(Answer(200, {"duration_ms": 3}), REGISTRATION, came=True) is None
    assert register_body(NODE)["username"] == "_agent_palaver"
    assert ping_path(REGISTRATION) == "/_matrix/client/v1/appservice/palaver/ping"


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoAnswer("Connection refused"), "does not answer at http://127.0.0.1:8008 (Connection refused)"),
        (Answer(404), "is no homeserver"),
        (Answer(200), "is no homeserver"),
        (Answer(302), "is no homeserver"),
        (Answer(502), "does not answer at http://127.0.0.1:8008 (HTTP status 502)"),
    ],
)
def test_what_answers_is_no_homeserver(heard: Heard, part: str) -> None:
    """Or nothing answers."""
    assert part in (wrong_versions(heard, URL) or "")


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoAnswer("it took too long"), "it took too long"),
        (refused(401, "M_UNKNOWN_TOKEN"), "does not know our as_token (M_UNKNOWN_TOKEN)"),
        (refused(403, "M_FORBIDDEN"), "does not know our as_token (M_FORBIDDEN)"),
        (refused(502, "M_UNKNOWN"), "did not say whose token ours is (M_UNKNOWN)"),
        (Answer(502), "HTTP status 502"),
        (Answer(200, {"user_id": 7}), "did not say"),
        (Answer(200, {"user_id": ME.replace("their", "other")}), "is called other.server"),
        (Answer(200, {"user_id": "no id"}), "is called"),
        (Answer(200, {"user_id": "@bot:their.server"}), "as that of @bot:their.server"),
    ],
)
def test_the_homeserver_does_not_know_us(heard: Heard, part: str) -> None:
    """The registration is not installed, was edited, or the domain is another one: each in its own words."""
    found = wrong_whoami(heard, REGISTRATION, WANTED) or ""
    assert part in found
    assert SECRETS.as_token not in found


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoAnswer("it took too long"), "@_agent_palaver:their.server (it took too long)"),
        (refused(400, "M_EXCLUSIVE"), "reserves users that begin with _agent_ too"),
        (refused(500, "M_UNKNOWN"), "does not give us @_agent_palaver:their.server (M_UNKNOWN)"),
        (Answer(502), "(HTTP status 502)"),
    ],
)
def test_the_homeserver_does_not_give_us_our_names(heard: Heard, part: str) -> None:
    """Because somebody else has them, in words of its own."""
    assert part in (wrong_register(heard, NODE, WANTED.namespaces) or "")


@pytest.mark.parametrize(
    ("heard", "part"),
    [
        (NoAnswer("it took too long"), "it took too long"),
        (Answer(200, {}), "Something else"),
        (refused(400, "M_URL_NOT_SET"), "has no url"),
        (refused(502, "M_CONNECTION_FAILED"), "cannot reach this node at http://127.0.0.1:7678"),
        (refused(504, "M_CONNECTION_TIMEOUT"), "cannot reach this node"),
        (refused(502, "M_BAD_STATUS", status=403, body="{}"), "refuses it (status 403)"),
        (refused(403, "M_FORBIDDEN"), "not as that of “palaver”"),
        (refused(404, "M_UNRECOGNIZED"), "v1.7"),
        (refused(500, "M_UNKNOWN"), "(M_UNKNOWN)"),
        (Answer(500, {"errcode": "\x1b[31mM_RED" + "x" * 900}), "[31mM_RED"),
    ],
)
def test_the_homeserver_does_not_reach_us(heard: Heard, part: str) -> None:
    """What it says of its own attempt, as what to do about it, in one line."""
    found = wrong_ping(heard, REGISTRATION, came=False) or ""
    assert part in found
    assert found.isprintable()
    assert len(found) < 500


def test_a_ping_that_somebody_else_answered_is_none() -> None:
    """Another process has our port."""
    moved = replace(REGISTRATION, url="http://10.0.0.1:1")
    assert "10.0.0.1:1" in (wrong_ping(Answer(200), moved, came=False) or "")


@pytest.mark.parametrize(
    ("heard", "passes"),
    [
        (NoAnswer("Connection refused"), True),
        (Answer(502), True),
        (Answer(503), True),
        (refused(503, "M_UNKNOWN"), True),
        (refused(429, "M_LIMIT_EXCEEDED"), True),
        (refused(502, "M_CONNECTION_FAILED"), False),
        (refused(500, "M_UNKNOWN"), False),
        (refused(401, "M_UNKNOWN_TOKEN"), False),
        (Answer(404), False),
    ],
)
def test_what_passes_by_itself(heard: Heard, passes: bool) -> None:
    """A homeserver that is being started is waited for; nobody waits for a mistake to go away."""
    assert wrong("It is wrong.", heard) == Wrong("It is wrong.", passes)
    assert wrong(None, heard) is None
