"""Findings about the addresses of a server."""

from dataclasses import replace

import pytest

from federation.peers.check.facts import ServerStatus, TlsHandshake, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.healthy_server import CERTIFICATE, HEALTHY, ITSELF, PLACE, with_place, wrong
from tests.support.server_keys import DAY, NOW

DEAD = {"handshake": None, "keys": None, "version": None}


def test_an_unreachable_address() -> None:
    """The advice is different for the operator of the server."""
    [finding] = wrong(with_place(unreachable="connection refused", **DEAD))
    assert (finding.verdict, "connection refused" in finding.text) == (Verdict.FAULT, True)
    assert "Ask its operator" in finding.advice
    [finding] = wrong(with_place(ITSELF, unreachable="connection refused", **DEAD))
    assert "`palaver status`" in finding.advice


def test_one_unreachable_address_of_several_is_a_warning() -> None:
    """It only costs time."""
    dead = replace(PLACE, address="2001:db8::1", unreachable="network is unreachable", **DEAD)
    [finding] = wrong(replace(HEALTHY, probes=(dead, PLACE)))
    assert (finding.verdict, finding.subject) == (Verdict.WARNING, "[2001:db8::1]:7676")


def test_a_blocked_address() -> None:
    """For another server it is a fault, or an attack; for this one it prevents other servers from
    connecting."""
    [finding] = wrong(with_place(is_blocked=True, **DEAD))
    assert (finding.verdict, "federation.blocked_networks" in finding.advice) == (Verdict.FAULT, True)
    [finding] = wrong(with_place(ITSELF, is_blocked=True))
    assert (finding.verdict, "not a public address" in finding.text) == (Verdict.WARNING, True)


def test_the_address_of_a_loopback_name_is_not_reported() -> None:
    """The name itself was reported."""
    facts = replace(with_place(ITSELF, is_blocked=True), server="localhost:7676", own_name="localhost:7676")
    assert [finding.subject for finding in wrong(facts) if finding.verdict is Verdict.WARNING] == ["name"]


def test_an_invalid_certificate() -> None:
    """In terms that its operator understands."""
    handshake = TlsHandshake(code=62, problem="Hostname mismatch", certificate=CERTIFICATE)
    [finding] = wrong(with_place(handshake=handshake, keys=None, version=None))
    assert (finding.verdict, "not for host.test" in finding.text) == (Verdict.FAULT, True)


def test_a_failed_handshake() -> None:
    """Most often the port is wrong."""
    handshake = TlsHandshake(problem="wrong version number")
    [finding] = wrong(with_place(handshake=handshake, keys=None, version=None))
    assert "wrong version number" in finding.text
    assert "Check the port" in finding.advice


@pytest.mark.parametrize(("days", "warns"), [(13, True), (15, False)])
def test_a_certificate_that_expires_soon(days: int, warns: bool) -> None:
    """Before other servers refuse it."""
    certificate = replace(CERTIFICATE, ends=NOW + days * DAY)
    findings = wrong(with_place(handshake=TlsHandshake("TLSv1.3", certificate=certificate)))
    assert bool(findings) == warns


def test_a_certificate_of_a_private_authority() -> None:
    """Other servers do not trust the authority."""
    handshake = TlsHandshake("TLSv1.3", certificate=CERTIFICATE, trusted_by_system=False)
    [finding] = wrong(with_place(ITSELF, handshake=handshake))
    assert (finding.verdict, "Only servers that trust" in finding.text) == (Verdict.WARNING, True)
    assert wrong(with_place(ITSELF, handshake=replace(handshake, trusted_by_system=True))) == []


@pytest.mark.parametrize("ends", [10**30, 0])
def test_extreme_dates_of_certificates(ends: int) -> None:
    """A certificate that cannot be parsed may still be valid."""
    certificate = replace(CERTIFICATE, ends=ends)
    assert report(with_place(handshake=TlsHandshake("TLSv1.3", certificate=certificate)))
    assert wrong(with_place(handshake=TlsHandshake("TLSv1.2"))) == []


def test_plain_http_has_no_handshake() -> None:
    """The address accepts connections."""
    facts = replace(with_place(handshake=None), status=ServerStatus(is_configured=True, is_plain=True))
    assert any("accepts connections" in finding.text for finding in report(facts))
