"""Findings about a server's software, its clock, and whether it accepts our signature."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from federation.client.errors import PeerNotAllowed, PeerRefused, PeerTimedOut, PeerUnreachable
from federation.matrix.errors import PeerError
from federation.peers.check.facts import ProbeResponse, SignedProbe, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.healthy_server import HEALTHY, PEER, with_keys, with_place, wrong
from tests.support.server_keys import NOW


def dated(seconds: int) -> str:
    return f"{datetime.fromtimestamp(NOW / 1000 + seconds, UTC):%a, %d %b %Y %H:%M:%S} GMT"


@pytest.mark.parametrize(
    ("seconds", "verdict"),
    [
        (0, None),
        (59, None),
        (-59, None),
        (65, Verdict.WARNING),
        (-65, Verdict.WARNING),
        (3_700, Verdict.FAULT),
        (-90_000, Verdict.FAULT),
    ],
)
def test_a_clock_difference(seconds: int, verdict: Verdict | None) -> None:
    """By the Date header; a minute is ignored, with an hour valid keys appear to be expired."""
    findings = wrong(with_keys(date=dated(seconds)))
    assert [finding.verdict for finding in findings] == ([] if verdict is None else [verdict])
    if verdict is not None:
        assert ("ahead" if seconds > 0 else "behind") in findings[0].text


def test_a_slow_response_makes_the_clock_uncertain() -> None:
    """The header was written at some time before the response arrived."""
    assert wrong(with_keys(date=dated(70), received_at=NOW + 60_000)) == []


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_response_without_date(date: str | None) -> None:
    """Not every server sends a Date header."""
    assert "clock" not in {finding.subject for finding in report(with_keys(date=date))}


@pytest.mark.parametrize(
    "asked",
    [
        ProbeResponse(PeerRefused(PEER, 404, None, "")),
        ProbeResponse(None, {}),
        ProbeResponse(None, {"server": "Synapse"}),
        ProbeResponse(None, {"server": {"name": 7}}),
    ],
)
def test_a_missing_software_version(asked: ProbeResponse) -> None:
    """A proxy may forward one path but not the other."""
    [finding] = wrong(with_place(version=asked))
    assert (finding.verdict, finding.subject) == (Verdict.WARNING, "software")


def test_the_software_version() -> None:
    """Also without a version, and with a limited length."""
    for server, text in (
        ({"name": "Synapse", "version": "1.163.0"}, "It is Synapse 1.163.0."),
        ({"name": "Synapse", "version": 1}, "It is Synapse."),
        ({"name": "x" * 1_000}, f"It is {'x' * 100}."),
    ):
        texts = [one.text for one in report(with_place(version=ProbeResponse(None, {"server": server})))]
        assert text in texts


@pytest.mark.parametrize("problem", [None, PeerRefused(PEER, 404, "M_NOT_FOUND", ""), PeerRefused(PEER, 404, None, "")])
def test_a_server_that_has_looked_for_the_event_accepts_our_signature(problem: PeerError | None) -> None:
    """Whether it was found or not. Synapse returns no errcode."""
    texts = [finding.text for finding in report(replace(HEALTHY, signed=SignedProbe(problem)))]
    assert "It accepts the signature of us.test." in texts


@pytest.mark.parametrize(
    ("problem", "verdict", "advice"),
    [
        (PeerRefused(PEER, 401, "M_UNAUTHORIZED", "Failed to find key"), Verdict.FAULT, "peers check --self"),
        (PeerRefused(PEER, 403, "M_FORBIDDEN", "Not you."), Verdict.FAULT, "federation_domain_whitelist"),
        (PeerRefused(PEER, 429, "M_LIMIT_EXCEEDED", ""), Verdict.WARNING, "Try again"),
        (PeerRefused(PEER, 404, "M_UNRECOGNIZED", ""), Verdict.WARNING, "proxy"),
        (PeerRefused(PEER, 405, None, ""), Verdict.WARNING, "proxy"),
        (PeerRefused(PEER, 500, "M_UNKNOWN", ""), Verdict.FAULT, "log"),
        (PeerTimedOut(PEER, "took too long to answer"), Verdict.FAULT, "keys"),
        (PeerUnreachable(PEER, "closed the connection"), Verdict.FAULT, "log"),
        (PeerNotAllowed(PEER, "is not one"), Verdict.WARNING, "above"),
    ],
)
def test_a_server_that_does_not_accept_our_signature(problem: PeerError, verdict: Verdict, advice: str) -> None:
    """Each error with its meaning."""
    found: Any = wrong(replace(HEALTHY, signed=SignedProbe(problem)))
    [finding] = found
    assert (finding.verdict, finding.subject) == (verdict, "signature")
    assert advice in finding.advice
