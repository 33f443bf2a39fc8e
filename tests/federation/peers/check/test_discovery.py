"""Findings about server discovery."""

from dataclasses import replace

import pytest

from federation.client.server_discovery import (
    Candidate,
    DiscoveryQuery,
    NoRoute,
    Route,
    SrvAnswer,
    SrvQuery,
    WellKnownAnswer,
    WellKnownQuery,
)
from federation.client.srv_records import SrvRecord
from federation.peers.check.facts import Facts, ServerStatus, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.healthy_server import HEALTHY, ITSELF, PEER, ROUTE, wrong
from tests.support.server_keys import NOW

SRV = SrvQuery(f"_matrix-fed._tcp.{PEER}")
OLD_SRV = SrvQuery(f"_matrix._tcp.{PEER}")
RECORDS = SrvAnswer((SrvRecord(10, 5, 7676, "host.test."),), 60.0)
# No address answers, so that problems of the discovery are reported.
LOST = replace(HEALTHY, probes=(), names_without_address=(Candidate("host.test", 7676),), signed=None)


def with_query(facts: Facts, query: DiscoveryQuery, answer: WellKnownAnswer | SrvAnswer) -> Facts:
    return replace(facts, queries=((query, answer),))


@pytest.mark.parametrize("name", ["https://peer.test", "peer.test/", "", "a b", "peer.test:99999"])
def test_an_invalid_server_name(name: str) -> None:
    """The advice describes a valid one."""
    [finding] = wrong(Facts(name, "us.test", NOW))
    assert (finding.subject, "is not a server name" in finding.text) == ("name", True)


@pytest.mark.parametrize("name", ["localhost:7676", "127.0.0.1", "[::1]:7676"])
def test_a_loopback_name(name: str) -> None:
    """It is the default, so it is only a warning; for another server it may be intended."""
    itself = replace(ITSELF, server=name, own_name=name, route=None, queries=(), probes=())
    [finding] = wrong(itself)
    assert (finding.verdict, "points every machine to itself" in finding.text) == (Verdict.WARNING, True)
    assert wrong(replace(itself, own_name="us.test", status=ServerStatus())) == []


def test_the_configuration_of_this_node() -> None:
    """A server that it does not admit cannot be contacted."""
    [finding] = wrong(replace(HEALTHY, status=ServerStatus(is_admitted=False)))
    assert (finding.verdict, finding.subject) == (Verdict.FAULT, "configuration")
    assert f'server_name = "{PEER}"' in finding.advice
    [finding] = wrong(replace(HEALTHY, status=ServerStatus(is_configured=True, is_plain=True)))
    assert (finding.verdict, "plain HTTP" in finding.text) == (Verdict.WARNING, True)
    texts = [finding.text for finding in report(replace(HEALTHY, status=ServerStatus()))]
    assert "This node federates with every server." in texts


def test_a_delegation() -> None:
    """With the URL that contains it."""
    texts = [finding.text for finding in report(HEALTHY)]
    assert f"https://{PEER}/.well-known/matrix/server names host.test:7676." in texts


@pytest.mark.parametrize(
    ("answer", "is_worth_a_look"),
    [
        (WellKnownAnswer(None, 1.0, problem="answered 404"), False),
        (WellKnownAnswer(None, 1.0, problem="answered with nonsense"), True),
        (WellKnownAnswer(None, 1.0, failed=True, problem="answered 502"), True),
        (WellKnownAnswer(None, 1.0, failed=True, problem="could not be reached"), True),
    ],
)
def test_a_missing_delegation_is_a_warning_if_the_server_is_unreachable(
    answer: WellKnownAnswer, is_worth_a_look: bool
) -> None:
    """Most servers have none, and work."""
    assert wrong(with_query(HEALTHY, WellKnownQuery(PEER), answer)) == []
    subjects = [finding.subject for finding in wrong(with_query(LOST, WellKnownQuery(PEER), answer))]
    assert ("delegation" in subjects) == is_worth_a_look


def test_srv_records() -> None:
    """With their priorities; those of the deprecated service with what to publish instead."""
    texts = [finding.text for finding in report(with_query(HEALTHY, SRV, RECORDS))]
    assert f"_matrix-fed._tcp.{PEER} names host.test:7676 (priority 10, weight 5)." in texts
    [finding] = wrong(with_query(HEALTHY, OLD_SRV, RECORDS))
    assert "deprecated" in finding.text
    assert "_matrix-fed._tcp" in finding.advice
    assert wrong(with_query(HEALTHY, SRV, SrvAnswer((), 1.0))) == []
    many = SrvAnswer(tuple(SrvRecord(1, 1, port, "h.test.") for port in range(1, 33)), 1.0)
    [text] = [finding.text for finding in report(with_query(HEALTHY, SRV, many)) if finding.subject == "SRV records"]
    assert text.count("priority") == 5


def test_silent_name_servers_are_a_warning_if_the_server_is_unreachable() -> None:
    """A record that could not be read may be the route."""
    failed = SrvAnswer((), 60.0, failed=True)
    assert wrong(with_query(HEALTHY, SRV, failed)) == []
    assert "SRV records" in {finding.subject for finding in wrong(with_query(LOST, SRV, failed))}


def test_no_route_is_reported_with_its_rule() -> None:
    """The server has declared that it does not federate."""
    refusal = SrvAnswer((SrvRecord(0, 0, 0, "."),), 60.0)
    unresolved = NoRoute("declares in its SRV records that it does not federate", "4", 60.0)
    facts = replace(with_query(HEALTHY, SRV, refusal), route=unresolved, probes=(), signed=None)
    [finding] = wrong(facts)
    assert (finding.verdict, "(rule 4)" in finding.text) == (Verdict.FAULT, True)


@pytest.mark.parametrize("step", ["1", "2", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "6"])
def test_a_route_is_reported_with_its_rule(step: str) -> None:
    """By the number in the specification."""
    texts = [finding.text for finding in report(replace(HEALTHY, route=replace(ROUTE, step=step)))]
    assert any(f"(rule {step}, " in text for text in texts)


def test_a_configured_route() -> None:
    """It needs no queries."""
    facts = replace(HEALTHY, queries=(), route=replace(ROUTE, step="configured"))
    assert any("(from the configuration)" in finding.text for finding in report(facts))
    assert isinstance(facts.route, Route)


def test_names_without_addresses_and_too_many_addresses() -> None:
    """Both are reported."""
    subjects = {finding.text for finding in wrong(LOST)}
    assert any("host.test has no address" in text for text in subjects)
    [finding] = wrong(replace(HEALTHY, addresses_left_out=7))
    assert "7 more addresses" in finding.text
