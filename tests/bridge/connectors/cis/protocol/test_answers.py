"""What an event is answered with, and what a peer's answer means."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import error_codes as answers
from bridge.connectors.cis.protocol.error_codes import Again, Delivered, Ended, TaskAnswer
from bridge.connectors.cis.protocol.refusals import (
    Forbidden,
    InvalidPayload,
    Refusal,
    TooFast,
    TooLarge,
    Unavailable,
)

FINAL = ("400", "401", "403", "404")


def test_an_event_that_was_taken() -> None:
    """As published nodes answer."""
    assert answers.accepted("$1") == TaskAnswer(200, {"accepted": True, "event_id": "$1"})


@pytest.mark.parametrize(
    ("refusal", "status", "error"),
    [
        (InvalidPayload("status", "is missing"), 400, "INVALID_PAYLOAD: status is missing."),
        (Forbidden("No."), 403, "No."),
        (TooLarge("The event is too large."), 413, "The event is too large."),
        (TooFast(1), 429, "Too many events at once: send it again later."),
        (Unavailable(), 503, "The event could not be stored: send it again later."),
    ],
)
def test_each_refusal_has_its_status(refusal: Refusal, status: int, error: str) -> None:
    """In the shape that published nodes have for it."""
    made = answers.refused(refusal, "$1")
    assert (made.status, made.body) == (status, {"accepted": False, "error": error, "event_id": "$1"})
    assert answers.refused(refusal).body["event_id"] == ""


def test_when_to_come_back_stands_in_the_header() -> None:
    """In whole seconds, and at least one."""
    assert [answers.refused(TooFast(wait)).retry_after for wait in (0, 1, 1000, 1001, 403_000)] == [
        1,
        1,
        1,
        2,
        403,
    ]
    assert answers.refused(Unavailable()).retry_after is None


@given(st.sampled_from([TooFast(400), TooFast(404_000), Unavailable()]), st.text("$0134abcdef-", max_size=40))
def test_what_may_come_again_holds_no_trap(refusal: Refusal, event_id: str) -> None:
    """Published senders look for four statuses anywhere in status and body, and give up if they find one."""
    made = answers.refused(refusal, event_id)
    said = f"{made.status} {orjson.dumps(made.body).decode()}"
    assert not any(digits in said for digits in FINAL)
    assert made.body["event_id"] in {"", event_id}


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, {"accepted": True, "event_id": "$1"}, Delivered()),
        (202, {"accepted": True}, Delivered()),
        (200, {"accepted": False, "error": "no\nroom"}, Ended("answered 200: no\\x0aroom")),
        (200, None, Ended("answered 200")),
        (200, {"accepted": "true"}, Ended("answered 200")),
        (200, [], Ended("answered 200")),
        (400, {"accepted": False, "error": 5}, Ended("answered 400")),
        (401, None, Ended("answered 401")),
        (403, {"error": "Peer not trusted"}, Ended("answered 403: Peer not trusted")),
        (404, None, Ended("answered 404")),
        (413, None, Ended("answered 413")),
        (415, None, Ended("answered 415")),
        (422, None, Ended("answered 422")),
        (408, None, Again("answered 408")),
        (429, None, Again("answered 429")),
        (
            500,
            {"accepted": False, "error": "Failed to save event"},
            Again("answered 500: Failed to save event"),
        ),
        (503, None, Again("answered 503")),
        (204, None, Again("answered 204")),
        (302, None, Again("answered 302")),
    ],
)
def test_what_a_peer_s_answer_means(status: int, body: Any, outcome: answers.Outcome) -> None:
    """400, 401, 403, 404 and 413 end it; so does whatever else the peer will say again."""
    assert answers.outcome(status, body) == outcome


def test_a_peer_s_text_is_cut() -> None:
    """It ends in a log and before a person."""
    refused = answers.outcome(403, {"error": "x" * 10_000})
    assert isinstance(refused, Ended)
    assert len(refused.reason) < 400
