"""How the server is found."""

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
from federation.peers.check.facts import Facts, Standing, Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.seen import HEALTHY, ITSELF, PEER, ROUTE, wrong
from tests.support.server_keys import NOW

SRV = SrvQuery(f"_matrix-fed._tcp.{PEER}")
OLD_SRV = SrvQuery(f"_matrix._tcp.{PEER}")
RECORDS = SrvAnswer((SrvRecord(10, 5, 7676, "host.test."),), 60.0)
# Nothing answers, so that what was said on the way counts.
LOST = replace(HEALTHY, places=(), names_without_address=(Candidate("host.test", 7676),), signed=None)


def asked(facts: Facts, question: DiscoveryQuery, answer: WellKnownAnswer | SrvAnswer) -> Facts:
    return replace(facts, asked=((question, answer),))


@pytest.mark.parametrize("name", ["https://peer.test", "peer.test/", "", "a b", "peer.test:99999"])
def test_what_is_no_server_name_is_told(name: str) -> None:
    """With what one looks like."""
    [finding] = wrong(Facts(name, "us.test", NOW))
    assert (finding.subject, "is not a server name" in finding.text) == ("name", True)


@pytest.mark.parametrize("name", ["localhost:7676", "127.0.0.1", "[::1]:7676"])
def test_a_name_that_leads_to_ones_own_machine_is_told(name: str) -> None:
    """It is the default, and no fault; of another server it may be what is meant."""
    itself = replace(ITSELF, server=name, own_name=name, route=None, asked=(), places=())
    [finding] = wrong(itself)
    assert (finding.verdict, "leads every machine to itself" in finding.text) == (Verdict.WARNING, True)
    assert wrong(replace(itself, own_name="us.test", standing=Standing())) == []


def test_what_our_own_configuration_says() -> None:
    """Whom it does not admit nobody reaches, however well the server is."""
    [finding] = wrong(replace(HEALTHY, standing=Standing(is_admitted=False)))
    assert (finding.verdict, finding.subject) == (Verdict.FAULT, "configuration")
    assert f'server_name = "{PEER}"' in finding.advice
    [finding] = wrong(replace(HEALTHY, standing=Standing(is_configured=True, is_plain=True)))
    assert (finding.verdict, "plain HTTP" in finding.text) == (Verdict.WARNING, True)
    texts = [finding.text for finding in report(replace(HEALTHY, standing=Standing()))]
    assert "This node speaks with every server." in texts


def test_a_delegation_is_told() -> None:
    """With where it stands."""
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
def test_a_delegation_that_is_none_is_told_where_the_way_does_not_work(
    answer: WellKnownAnswer, is_worth_a_look: bool
) -> None:
    """Most servers have none, and are well."""
    assert wrong(asked(HEALTHY, WellKnownQuery(PEER), answer)) == []
    subjects = [finding.subject for finding in wrong(asked(LOST, WellKnownQuery(PEER), answer))]
    assert ("delegation" in subjects) == is_worth_a_look


def test_records_are_told() -> None:
    """With their priorities; those of the deprecated service with what to publish instead."""
    texts = [finding.text for finding in report(asked(HEALTHY, SRV, RECORDS))]
    assert f"_matrix-fed._tcp.{PEER} names host.test:7676 (priority 10, weight 5)." in texts
    [finding] = wrong(asked(HEALTHY, OLD_SRV, RECORDS))
    assert "deprecated" in finding.text
    assert "_matrix-fed._tcp" in finding.advice
    assert wrong(asked(HEALTHY, SRV, SrvAnswer((), 1.0))) == []
    many = SrvAnswer(tuple(SrvRecord(1, 1, port, "h.test.") for port in range(1, 33)), 1.0)
    [text] = [
        finding.text for finding in report(asked(HEALTHY, SRV, many)) if finding.subject == "SRV records"
    ]
    assert text.count("priority") == 5


def test_name_servers_that_do_not_answer_are_told_where_the_way_does_not_work() -> None:
    """A record that nobody could read may be the way."""
    failed = SrvAnswer((), 60.0, failed=True)
    assert wrong(asked(HEALTHY, SRV, failed)) == []
    assert "SRV records" in {finding.subject for finding in wrong(asked(LOST, SRV, failed))}


def test_no_way_is_told_with_its_rule() -> None:
    """What the server itself has said."""
    refusal = SrvAnswer((SrvRecord(0, 0, 0, "."),), 60.0)
    nowhere = NoRoute("says in its SRV records that it does not federate", "4", 60.0)
    facts = replace(asked(HEALTHY, SRV, refusal), route=nowhere, places=(), signed=None)
    [finding] = wrong(facts)
    assert (finding.verdict, "(rule 4)" in finding.text) == (Verdict.FAULT, True)


@pytest.mark.parametrize("step", ["1", "2", "3.1", "3.2", "3.3", "3.4", "3.5", "4", "5", "6"])
def test_a_way_is_told_with_the_rule_that_gave_it(step: str) -> None:
    """By the number of the specification."""
    texts = [finding.text for finding in report(replace(HEALTHY, route=replace(ROUTE, step=step)))]
    assert any(f"(rule {step}, " in text for text in texts)


def test_a_configured_way_is_told_as_such() -> None:
    """Nobody was asked for it."""
    facts = replace(HEALTHY, asked=(), route=replace(ROUTE, step="configured"))
    assert any("(as the configuration says)" in finding.text for finding in report(facts))
    assert isinstance(facts.route, Route)


def test_a_name_without_an_address_is_told() -> None:
    """And addresses that were too many to be looked at."""
    subjects = {finding.text for finding in wrong(LOST)}
    assert any("host.test has no address" in text for text in subjects)
    [finding] = wrong(replace(HEALTHY, places_left_out=7))
    assert "7 more addresses" in finding.text
