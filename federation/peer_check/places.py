"""Each address of the server: whether somebody listens there, and whether it shows that it is the server."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from federation.peer_check.certificate import what_is_wrong
from federation.peer_check.facts import Facts, Handshake, Place
from federation.peer_check.finding import Finding, Verdict, fault, fine, warning
from federation.peer_check.way import is_loopback_name
from federation.server_discovery import Route

RENEWAL_MS: Final = 14 * 24 * 3600 * 1000
"""Before a certificate ends. Those that are renewed by themselves are renewed a month before."""


def on_place(facts: Facts, place: Place, *, works: bool) -> Iterator[Finding]:
    """`works`: another address does, so that what is wrong with this one costs time and no more."""
    if place.is_blocked and not (facts.standing.is_self and is_loopback_name(facts.server)):
        yield _on_blocked(facts, place)
    if place.unreachable is not None:
        yield _graver(
            works,
            place.name,
            f"Nobody could be reached at {place.name}: {place.unreachable}.",
            _OPEN_THE_PORT if facts.standing.is_self else _ASK_WHO_RUNS_IT,
        )
    elif place.handshake is not None:
        yield _on_handshake(facts, place, place.handshake, works)
    elif facts.standing.is_plain and not place.is_blocked:
        yield fine(place.name, f"Somebody listens at {place.name}.")


_OPEN_THE_PORT: Final = (
    "Does this node listen there (`palaver status`), does a firewall let connections in, does a router pass"
    " them on?"
)
_ASK_WHO_RUNS_IT: Final = (
    "Ask whoever runs it whether it is up and its port open; and see that no firewall keeps this machine from"
    " connecting."
)


def _on_blocked(facts: Facts, place: Place) -> Finding:
    if facts.standing.is_self:
        return warning(
            place.name,
            f"{place.address} is no address of the internet: other servers are not led there by a name.",
            "Within one network name this node in a [[peers]] block of theirs; otherwise let the name lead to"
            " a public address.",
        )
    return fault(
        place.name,
        f"This node does not connect to {place.address}, whoever leads there.",
        "Is it the right address? Then name the server in a [[peers]] block, or take that network out of"
        " federation.blocked_networks.",
    )


def _on_handshake(facts: Facts, place: Place, shake: Handshake, works: bool) -> Finding:
    assert isinstance(facts.route, Route), "an address was found on a route"
    name = facts.route.certificate_name
    if shake.version is None:
        if shake.code is not None:
            text, advice = what_is_wrong(shake.code, shake.problem or "", name, shake.certificate)
            return _graver(works, place.name, f"{place.name} {text}.", advice)
        return _graver(
            works,
            place.name,
            f"{place.name} speaks no TLS that this node speaks: {shake.problem}.",
            "Federation is HTTPS, TLS 1.2 or newer. Is it the right port, and is TLS switched on there, or in"
            " the proxy before it?",
        )
    certificate = shake.certificate
    if certificate is None:
        return fine(place.name, f"{place.name} speaks {shake.version}, with a valid certificate for {name}.")
    ends = f"{datetime.fromtimestamp(min(certificate.ends, _LAST_MS) / 1000, UTC):%d %B %Y}"
    text = f"{place.name} speaks {shake.version}; its certificate for {name} lasts until {ends}."
    if certificate.ends - facts.now_ms < RENEWAL_MS:
        return warning(
            place.name, text, "It must be renewed soon; other servers will refuse it from then on."
        )
    if shake.by_everybody is False:
        return warning(
            place.name,
            f"{text} Only who was told of its authority, {certificate.issuer}, believes it.",
            'Peers that know each other name it (authority = "…/ca.pem" in a [[peers]] block; that of a'
            " development certificate is tls/ca.pem in the data directory). All others need one of a public"
            " authority.",
        )
    return fine(place.name, text)


_LAST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999, which is the last that certificates have."""


def _graver(works: bool, subject: str, text: str, advice: str) -> Finding:
    if not works:
        return fault(subject, text, advice)
    return Finding(subject, Verdict.WARNING, f"{text} Another address works, after a while.", advice)
