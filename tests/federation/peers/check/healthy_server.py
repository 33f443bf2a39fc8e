"""The facts of a healthy server, which each test changes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from federation.client.errors import PeerRefused
from federation.client.server_discovery import Candidate, Route, WellKnownAnswer, WellKnownQuery
from federation.peers.check.certificate import Certificate
from federation.peers.check.facts import (
    AddressProbe,
    Facts,
    Finding,
    ProbeResponse,
    ServerStatus,
    SignedProbe,
    TlsHandshake,
    Verdict,
)
from federation.peers.check.report import report
from tests.support.server_keys import DAY, NOW, key, key_document, public

PEER = "peer.test"
CANDIDATE = Candidate("host.test", 7676)
ROUTE = Route((CANDIDATE,), "host.test:7676", "host.test", "3.2", 1000.0)
CERTIFICATE = Certificate(("host.test",), "Some Authority", NOW - DAY, NOW + 90 * DAY, False)
HTTP_DATE = "Tue, 14 Nov 2023 22:13:20 GMT"  # NOW
KEYS = ProbeResponse(None, key_document(PEER, key("1")), HTTP_DATE, NOW, NOW + 100)
VERSION = ProbeResponse(None, {"server": {"name": "Test", "version": "1.2"}}, HTTP_DATE, NOW, NOW + 100)
PLACE = AddressProbe(
    CANDIDATE, "192.0.2.1", handshake=TlsHandshake("TLSv1.3", certificate=CERTIFICATE), keys=KEYS, version=VERSION
)
HEALTHY = Facts(
    PEER,
    "us.test",
    NOW,
    ServerStatus(is_configured=True),
    ((WellKnownQuery(PEER), WellKnownAnswer("host.test:7676", 1000.0)),),
    ROUTE,
    probes=(PLACE,),
    signed=SignedProbe(PeerRefused(PEER, 404, "M_NOT_FOUND", "No.")),
)
ITSELF = replace(
    HEALTHY, own_name=PEER, status=ServerStatus(is_self=True), signed=None, own_keys={"ed25519:1": public(key("1"))}
)


def with_place(facts: Facts = HEALTHY, **changes: Any) -> Facts:
    return replace(facts, probes=(replace(PLACE, **changes),))


def with_keys(facts: Facts = HEALTHY, content: Any = None, **changes: Any) -> Facts:
    keys = replace(KEYS, **changes)
    return with_place(facts, keys=replace(keys, content=content) if content is not None else keys)


def wrong(facts: Facts) -> list[Finding]:
    """The findings that are not fine. Each of them must have advice, and all texts must be sentences."""
    findings = report(facts)
    assert all(is_complete(finding) for finding in findings), findings
    return [finding for finding in findings if finding.verdict is not Verdict.FINE]


def is_complete(finding: Finding) -> bool:
    sentences: Iterable[str] = filter(None, (finding.text, finding.advice))
    has_advice = bool(finding.advice) or finding.verdict is Verdict.FINE
    return has_advice and all(text[-1] in ".?)" for text in sentences)
