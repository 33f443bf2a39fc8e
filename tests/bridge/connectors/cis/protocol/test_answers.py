"""Responses to received events, and the meaning of a peer's response."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import error_codes as answers
from bridge.connectors.cis.protocol.error_codes import Delivered, EventResponse, PermanentFailure, TemporaryFailure
from bridge.connectors.cis.protocol.refusals import (
    Forbidden,
    InvalidPayload,
    RateLimited,
    Refusal,
    TooLarge,
    Unavailable,
)

FINAL = ("400", "401", "403", "404")


def test_the_response_to_an_accepted_event() -> None:
    """It equals that of published nodes."""
    assert answers.accepted_response("$1") == EventResponse(200, {"accepted": True, "event_id": "$1"})


@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        (InvalidPayload("status", "is missing"), 400, "INVALID_PAYLOAD: status is missing."),
        (Forbidden("No."), 403, "No."),
        (TooLarge("The event is too large."), 413, "The event is too large."),
        (RateLimited(1), 429, "Rate limit exceeded: send the event again later."),
        (Unavailable(), 503, "The event could not be stored: send it again later."),
    ],
)
def test_each_refusal_has_its_status(refusal: Refusal, status: int, error: str) -> None:
    """In the shape that published nodes use for it."""
    made = answers.refused_response(refusal, "$1")
    assert (made.status, made.body) == (status, {"accepted": False, "error": error, "event_id": "$1"})
    assert answers.refused_response(refusal).body["event_id"] == ""


def test_the_retry_time_is_in_the_header() -> None:
    """In whole seconds, at least one."""
    assert [answers.refused_response(RateLimited(wait)).retry_after for wait in (0, 1, 1000, 1001, 403_000)] == [
        1,
        1,
        1,
        2,
        403,
    ]
    assert answers.refused_response(Unavailable()).retry_after is None


@given(st.sampled_from([RateLimited(400), RateLimited(404_000), Unavailable()]), st.text("$0134abcdef-", max_size=40))
def test_a_retryable_response_does_not_stop_retries(refusal: Refusal, event_id: str) -> None:
    """Published senders give up if they find one of four statuses anywhere in the status or the body."""
    made = answers.refused_response(refusal, event_id)
    said = f"{made.status} {orjson.dumps(made.body).decode()}"
    assert not any(digits in said for digits in FINAL)
    assert made.body["event_id"] in {"", event_id}


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, {"accepted": True, "event_id": "$1"}, Delivered()),
        (202, {"accepted": True}, Delivered()),
        (200, {"accepted": False, "error": "no\nroom"}, PermanentFailure("answered 200: no\\x0aroom")),
        (200, None, PermanentFailure("answered 200")),
        (200, {"accepted": "true"}, PermanentFailure("answered 200")),
        (200, [], PermanentFailure("answered 200")),
        (400, {"accepted": False, "error": 5}, PermanentFailure("answered 400")),
        (401, None, PermanentFailure("answered 401")),
        (403, {"error": "Peer not trusted"}, PermanentFailure("answered 403: Peer not trusted")),
        (404, None, PermanentFailure("answered 404")),
        (413, None, PermanentFailure("answered 413")),
        (415, None, PermanentFailure("answered 415")),
        (422, None, PermanentFailure("answered 422")),
        (408, None, TemporaryFailure("answered 408")),
        (429, None, TemporaryFailure("answered 429")),
        (
            500,
            {"accepted": False, "error": "Failed to save event"},
            TemporaryFailure("answered 500: Failed to save event"),
        ),
        (503, None, TemporaryFailure("answered 503")),
        (204, None, TemporaryFailure("answered 204")),
        (302, None, TemporaryFailure("answered 302")),
    ],
)
def test_the_meaning_of_a_peers_response(status: int, body: Any, outcome: answers.SendResult) -> None:
    """400, 401, 403, 404, 413 and every other status that would not change are permanent failures."""
    assert answers.send_result(status, body) == outcome


def test_a_peers_error_text_is_cut() -> None:
    """It is shown in logs and to people."""
    refused = answers.send_result(403, {"error": "x" * 10_000})
    assert isinstance(refused, PermanentFailure)
    assert len(refused.reason) < 400
