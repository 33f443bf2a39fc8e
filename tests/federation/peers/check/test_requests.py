"""What a server says of itself, its clock, and whether it believes us."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from federation.client.errors import PeerNotAllowed, PeerRefused, PeerTimedOut, PeerUnreachable
from federation.matrix.errors import PeerError
from federation.peers.check.facts import Asked, Signed, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.seen import HEALTHY, PEER, with_keys, with_place, wrong
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
def test_a_clock_that_is_off_is_told(seconds: int, verdict: Verdict | None) -> None:
    """By what the header says; a minute is nothing, an hour makes good keys look old."""
    findings = wrong(with_keys(date=dated(seconds)))
    assert [finding.verdict for finding in findings] == ([] if verdict is None else [verdict])
    if verdict is not None:
        assert ("ahead" if seconds > 0 else "behind") in findings[0].text


def test_a_slow_answer_says_little_of_a_clock() -> None:
    """The date was written at some time while we waited."""
    assert wrong(with_keys(date=dated(70), came_at=NOW + 60_000)) == []


@pytest.mark.parametrize("date", [None, "yesterday"])
def test_a_clock_that_nobody_sees_is_not_told(date: str | None) -> None:
    """Not every server dates its answers."""
    assert "clock" not in {finding.subject for finding in report(with_keys(date=date))}


@pytest.mark.parametrize(
    "asked",
    [
        Asked(PeerRefused(PEER, 404, None, "")),
        Asked(None, {}),
        Asked(None, {"server": "Synapse"}),
        Asked(None, {"server": {"name": 7}}),
    ],
)
def test_a_server_that_does_not_say_what_it_is_is_told(asked: Asked) -> None:
    """A proxy passes on one path and not the other."""
    [finding] = wrong(with_place(version=asked))
    assert (finding.verdict, finding.subject) == (Verdict.WARNING, "software")


def test_what_it_is_is_told() -> None:
    """Without a version too, and never at length."""
    for server, text in (
        ({"name": "Synapse", "version": "1.163.0"}, "It is Synapse 1.163.0."),
        ({"name": "Synapse", "version": 1}, "It is Synapse."),
        ({"name": "x" * 1_000}, f"It is {'x' * 100}."),
    ):
        texts = [one.text for one in report(with_place(version=Asked(None, {"server": server})))]
        assert text in texts


@pytest.mark.parametrize(
    "problem", [None, PeerRefused(PEER, 404, "M_NOT_FOUND", ""), PeerRefused(PEER, 404, None, "")]
)
def test_who_looked_for_the_event_has_believed_us(problem: PeerError | None) -> None:
    """Found or not. Synapse has no errcode there."""
    texts = [finding.text for finding in report(replace(HEALTHY, signed=Signed(problem)))]
    assert "It believes what us.test signs." in texts


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
def test_who_does_not_believe_us_is_told(problem: PeerError, verdict: Verdict, advice: str) -> None:
    """Each answer with what it means."""
    found: Any = wrong(replace(HEALTHY, signed=Signed(problem)))
    [finding] = found
    assert (finding.verdict, finding.subject) == (verdict, "signature")
    assert advice in finding.advice
