"""Records of agent events."""

import pytest

from bridge.connectors.cis.event_record import EventRecord, Verdict, subject_of, verdict_of
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.refusals import (
    Forbidden,
    InvalidPayload,
    RateLimited,
    Refusal,
    TooLarge,
    Unavailable,
)
from tests.bridge.connectors.cis.event_builders import heartbeat, message, registered, request, response


@pytest.mark.parametrize(
    ("refusal", "verdict"),
    [
        (InvalidPayload("a", "is wrong"), Verdict.INVALID),
        (Forbidden("No."), Verdict.FORBIDDEN),
        (TooLarge("No."), Verdict.TOO_LARGE),
        (RateLimited(5), Verdict.TOO_FAST),
        (Unavailable(), Verdict.UNAVAILABLE),
    ],
)
def test_each_refusal_has_a_verdict(refusal: Refusal, verdict: Verdict) -> None:
    """It is a metric label, independent of the sentence."""
    assert verdict_of(refusal) is verdict


def test_the_direction_of_a_record() -> None:
    """Sent events and failed ones are outgoing."""
    ours = {verdict for verdict in Verdict if EventRecord("a", "t", verdict).is_outgoing}
    assert ours == {Verdict.SENT, Verdict.FAILED}


@pytest.mark.parametrize(
    ("event", "subject"),
    [
        (registered(), "worker-1@kitchen.local"),
        (heartbeat(), "worker-1@kitchen.local"),
        (request(), "req-1"),
        (response(), "req-1"),
        (message(), "msg-1"),
    ],
)
def test_the_subject_of_an_event(event: AnyEvent, subject: str) -> None:
    """The agent, the request or the message."""
    assert subject_of(event) == subject
