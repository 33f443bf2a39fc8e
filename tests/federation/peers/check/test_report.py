"""The report as a whole."""

from dataclasses import replace

from federation.peers.check.facts import Facts, Verdict, worst
from federation.peers.check.report import report
from tests.federation.peers.check.seen import HEALTHY, ITSELF, PLACE, wrong
from tests.support.server_keys import NOW


def test_nothing_is_wrong_with_a_healthy_server() -> None:
    """Each step is told in its order."""
    assert wrong(HEALTHY) == []
    assert [finding.subject for finding in report(HEALTHY)] == [
        "name",
        "configuration",
        "delegation",
        "way",
        "192.0.2.1:7676",
        "keys",
        "software",
        "clock",
        "signature",
    ]


def test_what_was_not_reached_is_not_told() -> None:
    """What comes after a fault was not tried."""
    [name] = report(Facts("no name", "us.test", NOW))[:1]
    assert name.verdict is Verdict.FAULT
    assert "signature" not in {
        finding.subject for finding in report(replace(HEALTHY, places=(), signed=None))
    }


def test_addresses_that_say_the_same_say_it_once() -> None:
    """Two of one server are the common case."""
    other = replace(PLACE, address="2001:db8::1")
    subjects = [finding.subject for finding in report(replace(HEALTHY, places=(PLACE, other)))]
    assert subjects.count("keys") == 1
    assert {"192.0.2.1:7676", "[2001:db8::1]:7676"} <= set(subjects)


def test_of_itself_a_node_is_not_asked_for_a_signature() -> None:
    """Nobody signs to himself."""
    assert "signature" not in {finding.subject for finding in report(ITSELF)}
    assert worst(report(HEALTHY)) is Verdict.FINE
