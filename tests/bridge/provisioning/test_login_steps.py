"""The login flow."""

import pytest

from bridge.provisioning.login_steps import (
    FLOW,
    LOGIN_TTL,
    MAX_LOGINS,
    STEP,
    STEP_TYPE,
    LoginProcesses,
    complete,
    first_step,
    flows,
    token_in,
)
from federation.matrix.errors import MatrixError

ALICE, BOB = "@alice:their.server", "@bob:their.server"


def test_one_step() -> None:
    """In the format of bridge managers."""
    step = first_step("process")
    assert (step["login_id"], step["type"], step["step_id"]) == ("process", "user_input", STEP)
    (field,) = step["user_input"]["fields"]
    assert field.keys() >= {"type", "id", "name"}
    assert complete("process", "login")["complete"] == {"user_login_id": "login"}
    assert [flow["id"] for flow in flows(accepts_tokens=True)] == [FLOW]
    assert flows(accepts_tokens=False) == []


def test_login_expires() -> None:
    """It belongs to one person and has one step."""
    begun = LoginProcesses()
    begun.begin("one", ALICE, FLOW, 0.0, accepts_tokens=True)
    begun.check("one", ALICE, STEP, STEP_TYPE, LOGIN_TTL - 1)
    for person, process, now in ((BOB, "one", 1.0), (ALICE, "two", 1.0), (ALICE, "one", LOGIN_TTL)):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            begun.check(process, person, STEP, STEP_TYPE, now)
    for step, kind in (("other", STEP_TYPE), (STEP, "cookies")):
        with pytest.raises(MatrixError, match="400 M_BAD_STATE"):
            begun.check("one", ALICE, step, kind, 1.0)
    begun.end("one")
    with pytest.raises(MatrixError):
        begun.check("one", ALICE, STEP, STEP_TYPE, 1.0)


def test_new_login_replaces_the_previous_one() -> None:
    """And the total number is limited."""
    begun = LoginProcesses()
    for process in ("one", "two"):
        begun.begin(process, ALICE, FLOW, 0.0, accepts_tokens=True)
    begun.check("two", ALICE, STEP, STEP_TYPE, 1.0)
    with pytest.raises(MatrixError):
        begun.check("one", ALICE, STEP, STEP_TYPE, 1.0)
    for number in range(MAX_LOGINS):
        begun.begin(str(number), f"@{number}:their.server", FLOW, 0.0, accepts_tokens=True)
    with pytest.raises(MatrixError):
        begun.check("two", ALICE, STEP, STEP_TYPE, 1.0)


def test_one_flow() -> None:
    """If tokens are accepted at all."""
    for flow, takes in (("qr", True), (FLOW, False)):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            LoginProcesses().begin("one", ALICE, flow, 0.0, accepts_tokens=takes)


@pytest.mark.parametrize("fields", [None, [], {}, {"access_token": 1}, {"access_token": " "}, {"x": "y"}])
def test_token_field_is_required(fields: object) -> None:
    """Other fields are ignored."""
    with pytest.raises(MatrixError, match="M_BAD_JSON"):
        token_in(fields)
    assert token_in({"access_token": " abc\n"}) == "abc"
