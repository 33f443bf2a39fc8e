"""Responses about the devices of agents, which have none."""

import pytest

from federation.http.endpoints.devices import claimed_keys, device_keys, devices_of, refuse_remote_users
from federation.matrix.errors import MatrixError

HERE = "a.example"
ALICE = "@alice:a.example"


def test_an_agent_has_no_devices() -> None:
    """The required fields with an empty list."""
    assert devices_of(ALICE) == {"user_id": ALICE, "stream_id": 0, "devices": []}


def test_each_requested_user_is_in_the_response() -> None:
    """Without devices, so that the requester does not look for them elsewhere."""
    body = {"device_keys": {ALICE: [], "@other:a.example": ["ABC"]}, "more": 5}
    assert device_keys(body, HERE) == {"device_keys": {ALICE: {}, "@other:a.example": {}}}
    assert device_keys({"device_keys": {}}, HERE) == {"device_keys": {}}


def test_no_keys_can_be_claimed() -> None:
    """ "If a key matching these requirements can be found, the response contains it." """
    body = {"one_time_keys": {ALICE: {"ABC": "signed_curve25519"}}}
    assert claimed_keys(body, HERE) == {"one_time_keys": {}}


@pytest.mark.parametrize("body", [None, [], {}, {"device_keys": []}, {"device_keys": {ALICE: {}}},
                                  {"device_keys": {ALICE: [5]}}, {"device_keys": {ALICE: None}}])  # fmt: skip
def test_an_invalid_key_query_is_refused(body: object) -> None:
    """400 M_BAD_JSON."""
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        device_keys(body, HERE)


@pytest.mark.parametrize("body", [None, [], {}, {"one_time_keys": 1}, {"one_time_keys": {ALICE: []}},
                                  {"one_time_keys": {ALICE: {"ABC": 5}}}])  # fmt: skip
def test_an_invalid_claim_is_refused(body: object) -> None:
    """400 M_BAD_JSON."""
    with pytest.raises(MatrixError, match="400 M_BAD_JSON"):
        claimed_keys(body, HERE)


@pytest.mark.parametrize("user", ["@alice:b.example", "@alice:A.example", "alice", "", "@\0:a.example", "@a:"])
def test_remote_users_are_refused(user: str) -> None:
    """ "Requested users must be local to the receiving homeserver." """
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        refuse_remote_users(user, HERE)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        device_keys({"device_keys": {ALICE: [], user: []}}, HERE)
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        claimed_keys({"one_time_keys": {user: {}}}, HERE)
    refuse_remote_users(ALICE, HERE)
