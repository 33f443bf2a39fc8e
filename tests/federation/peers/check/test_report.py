"""The report as a whole."""

from dataclasses import replace

from federation.peers.check.facts import Facts, Verdict, worst
from federation.peers.check.report import report
from tests.federation.peers.check.healthy_server import HEALTHY, ITSELF, PLACE, wrong
from tests.support.server_keys import NOW


def test_nothing_is_wrong_with_a_healthy_server() -> None:
    """The findings are in the order of the steps."""
    assert wrong(HEALTHY) == []
    assert [finding.subject for finding in report(HEALTHY)] == [
        "name",
        "configuration",
        "delegation",
        "route",
        "192.0.2.1:7676",
        "keys",
        "software",
        "clock",
        "signature",
    ]


def test_steps_that_were_not_tested_have_no_findings() -> None:
    """Steps after a fault are not tested."""
    [name] = report(Facts("no name", "us.test", NOW))[:1]
    assert name.verdict is Verdict.FAULT
    assert "signature" not in {finding.subject for finding in report(replace(HEALTHY, probes=(), signed=None))}


def test_equal_findings_of_several_addresses_are_reported_once() -> None:
    """Two addresses of one server are common."""
    other = replace(PLACE, address="2001:db8::1")
    subjects = [finding.subject for finding in report(replace(HEALTHY, probes=(PLACE, other)))]
    assert subjects.count("keys") == 1
    assert {"192.0.2.1:7676", "[2001:db8::1]:7676"} <= set(subjects)


def test_a_node_does_not_test_its_signature_with_itself() -> None:
    """There is no signed request to itself."""
    assert "signature" not in {finding.subject for finding in report(ITSELF)}
    assert worst(report(HEALTHY)) is Verdict.FINE
