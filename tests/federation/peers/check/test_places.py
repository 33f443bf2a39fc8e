"""The addresses of a server."""

from dataclasses import replace

import pytest

from federation.peers.check.facts import Handshake, Standing, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.seen import CERTIFICATE, HEALTHY, ITSELF, PLACE, with_place, wrong
from tests.support.server_keys import DAY, NOW

DEAD = {"handshake": None, "keys": None, "version": None}


def test_an_address_that_is_dead_is_told() -> None:
    """To whoever runs it in other words than to those who would reach it."""
    [finding] = wrong(with_place(unreachable="connection refused", **DEAD))
    assert (finding.verdict, "connection refused" in finding.text) == (Verdict.FAULT, True)
    assert "Ask whoever runs it" in finding.advice
    [finding] = wrong(with_place(ITSELF, unreachable="connection refused", **DEAD))
    assert "`palaver status`" in finding.advice


def test_one_dead_address_of_several_is_a_warning() -> None:
    """It costs time and no more."""
    dead = replace(PLACE, address="2001:db8::1", unreachable="network is unreachable", **DEAD)
    [finding] = wrong(replace(HEALTHY, places=(dead, PLACE)))
    assert (finding.verdict, finding.subject) == (Verdict.WARNING, "[2001:db8::1]:7676")


def test_a_blocked_address_is_told() -> None:
    """Of another server it is a fault, or an attack; of this one what keeps strangers from it."""
    [finding] = wrong(with_place(is_blocked=True, **DEAD))
    assert (finding.verdict, "federation.blocked_networks" in finding.advice) == (Verdict.FAULT, True)
    [finding] = wrong(with_place(ITSELF, is_blocked=True))
    assert (finding.verdict, "no address of the internet" in finding.text) == (Verdict.WARNING, True)


def test_of_a_loopback_name_the_address_is_no_news() -> None:
    """The name itself has been told."""
    facts = replace(with_place(ITSELF, is_blocked=True), server="localhost:7676", own_name="localhost:7676")
    assert [finding.subject for finding in wrong(facts) if finding.verdict is Verdict.WARNING] == ["name"]


def test_a_bad_certificate_is_told() -> None:
    """In the words of whoever has to mend it."""
    shake = Handshake(code=62, problem="Hostname mismatch", certificate=CERTIFICATE)
    [finding] = wrong(with_place(handshake=shake, keys=None, version=None))
    assert (finding.verdict, "not for host.test" in finding.text) == (Verdict.FAULT, True)


def test_what_is_no_tls_is_told() -> None:
    """The wrong port, most often."""
    shake = Handshake(problem="wrong version number")
    [finding] = wrong(with_place(handshake=shake, keys=None, version=None))
    assert "wrong version number" in finding.text
    assert "right port" in finding.advice


@pytest.mark.parametrize(("days", "warns"), [(13, True), (15, False)])
def test_a_certificate_that_ends_soon_is_told(days: int, warns: bool) -> None:
    """Before other servers are the ones who tell."""
    certificate = replace(CERTIFICATE, ends=NOW + days * DAY)
    findings = wrong(with_place(handshake=Handshake("TLSv1.3", certificate=certificate)))
    assert bool(findings) == warns


def test_a_certificate_that_only_we_believe_is_told() -> None:
    """Others have not been told of its authority."""
    shake = Handshake("TLSv1.3", certificate=CERTIFICATE, by_everybody=False)
    [finding] = wrong(with_place(ITSELF, handshake=shake))
    assert (finding.verdict, "Only who was told" in finding.text) == (Verdict.WARNING, True)
    assert wrong(with_place(ITSELF, handshake=replace(shake, by_everybody=True))) == []


@pytest.mark.parametrize("ends", [10**30, 0])
def test_no_date_is_too_far(ends: int) -> None:
    """And a certificate that cannot be read may be valid all the same."""
    certificate = replace(CERTIFICATE, ends=ends)
    assert report(with_place(handshake=Handshake("TLSv1.3", certificate=certificate)))
    assert wrong(with_place(handshake=Handshake("TLSv1.2"))) == []


def test_plain_http_is_told_without_a_handshake() -> None:
    """Somebody listens there."""
    facts = replace(with_place(handshake=None), standing=Standing(is_configured=True, is_plain=True))
    assert any("Somebody listens" in finding.text for finding in report(facts))
