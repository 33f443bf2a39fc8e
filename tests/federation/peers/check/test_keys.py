"""Findings about the keys that a server publishes."""

from dataclasses import replace
from typing import Any

import pytest

from federation.client.errors import PeerMalformed, PeerRefused, PeerTimedOut, PeerTlsFailure
from federation.keys.key_documents import ServerKey
from federation.matrix.errors import PeerError
from federation.peers.check.facts import Verdict
from federation.peers.check.report import report
from tests.federation.peers.check.healthy_server import HEALTHY, ITSELF, PEER, with_keys, wrong
from tests.support.server_keys import DAY, NOW, key, key_document, public

HOUR = 3600 * 1000


@pytest.mark.parametrize(
    ("problem", "advice"),
    [
        (PeerTlsFailure(PEER, "asked for a certificate"), "certificate"),
        (PeerRefused(PEER, 404, None, ""), "not a Matrix server"),
        (PeerRefused(PEER, 502, None, ""), "proxy"),
        (PeerTimedOut(PEER, "took too long to answer"), "overloaded"),
        (PeerMalformed(PEER, "answered with nonsense"), "JSON"),
    ],
)
def test_missing_keys(problem: PeerError, advice: str) -> None:
    """The advice depends on the error."""
    [finding] = wrong(replace(with_keys(problem=problem), signed=None))
    assert (finding.verdict, finding.subject) == (Verdict.FAULT, "keys")
    assert problem.problem in finding.text
    assert advice in finding.advice


def test_keys_of_another_server() -> None:
    """The server name must match exactly, including case."""
    for name in ("other.test", PEER.upper()):
        [finding] = wrong(with_keys(content=key_document(name, key("1"))))
        assert (finding.verdict, f"the keys of {name}" in finding.text) == (Verdict.FAULT, True)


@pytest.mark.parametrize(
    "content",
    [
        {"server_name": 7},
        {"server_name": PEER},
        key_document(PEER, key("1"), signers=[key("2")]),
        {**key_document(PEER, key("1")), "valid_until_ts": "soon"},
    ],
)
def test_an_invalid_key_document(content: dict[str, Any]) -> None:
    """With what is wrong with it."""
    [finding] = wrong(with_keys(content=content))
    assert (finding.verdict, finding.text.startswith("The key document of 192.0.2.1:7676 is invalid")) == (
        Verdict.FAULT,
        True,
    )


@pytest.mark.parametrize(
    ("until", "verdict"),
    [(NOW - 1, Verdict.FAULT), (NOW + HOUR - 1, Verdict.WARNING), (NOW + HOUR, None), (NOW + 99 * DAY, None)],
)
def test_the_validity_of_keys(until: int, verdict: Verdict | None) -> None:
    """Expired, too short, or long enough."""
    findings = wrong(with_keys(content=key_document(PEER, key("1"), until=until)))
    assert [finding.verdict for finding in findings] == ([] if verdict is None else [verdict])


def test_keys_that_are_not_valid() -> None:
    """Of another algorithm, or without a signature of their own; the others are valid."""
    document = key_document(PEER, key("1"), key("2"), signers=[key("1")])
    [finding] = wrong(with_keys(content=document))
    assert (finding.verdict, "ed25519:2" in finding.text) == (Verdict.WARNING, True)
    assert any("It publishes ed25519:1," in one.text for one in report(with_keys(content=document)))


def known(public_key: bytes, *, until: int = NOW + DAY, expired: int | None = None) -> dict[str, ServerKey]:
    return {"ed25519:1": ServerKey(PEER, "ed25519:1", public_key, until, expired, NOW, "direct")}


def test_another_key_under_a_known_id() -> None:
    """It is refused until the known key has expired, or forever if that is an old key."""
    [finding] = wrong(replace(HEALTHY, known_keys=known(public(key("other")))))
    assert (finding.verdict, "until 2023-11-15 22:13 UTC" in finding.text) == (Verdict.FAULT, True)
    [finding] = wrong(replace(HEALTHY, known_keys=known(public(key("other")), expired=NOW - DAY)))
    assert finding.text.endswith("its signatures are refused.")
    assert wrong(replace(HEALTHY, known_keys=known(public(key("other")), until=NOW - 1))) == []
    assert wrong(replace(HEALTHY, known_keys=known(public(key("1"))))) == []


def test_a_node_expects_its_own_keys_under_its_name() -> None:
    """Another node answering under its name is a fault."""
    assert wrong(replace(ITSELF, own_keys={"ed25519:1": public(key("1"))})) == []
    for keys in ({}, {"ed25519:1": public(key("other"))}):
        [finding] = wrong(replace(ITSELF, own_keys=keys))
        assert (finding.verdict, "another node answers" in finding.text) == (Verdict.FAULT, True)


def test_extreme_dates_of_keys() -> None:
    """Servers may publish any number."""
    assert report(with_keys(content=key_document(PEER, key("1"), until=2**53 - 1)))
    assert report(replace(HEALTHY, known_keys=known(public(key("other")), until=2**62)))
