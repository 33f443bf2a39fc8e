"""Each address of the server: whether somebody listens there, and whether it shows that it is the server.

How the server is found: its name, what the well-known and the name servers say, and where that leads.

One connection to one address, made only to see what becomes of it.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from federation.client.errors import connection_failure
from federation.client.server_discovery import (
    SERVICES,
    NoRoute,
    Route,
    SrvAnswer,
    SrvQuery,
    WellKnownAnswer,
    WellKnownQuery,
)
from federation.client.srv_records import SrvRecord, is_refusal
from federation.matrix.identifiers import parse_server_name
from federation.peers.check.certificate import read_certificate, what_is_wrong
from federation.peers.check.facts import Facts, Finding, Handshake, Place, Verdict, fault, fine, warning

# Server-server API, "Resolving server names": the rules by their numbers, in few words.
_RULES: Final = {
    "1": "the name is an IP address",
    "2": "the name has a port",
    "3.1": "the .well-known names an IP address",
    "3.2": "the .well-known names a host with a port",
    "3.3": "the SRV record _matrix-fed._tcp of the name in the .well-known",
    "3.4": "the SRV record _matrix._tcp of the name in the .well-known",
    "3.5": "port 8448 of the name in the .well-known",
    "4": "the SRV record _matrix-fed._tcp",
    "5": "the SRV record _matrix._tcp",
    "6": "port 8448 of the name itself",
}
_SHOWN: Final = 5


def on_name(facts: Facts) -> Finding:
    parsed = parse_server_name(facts.server)
    if parsed is None:
        return fault(
            "name",
            f"{facts.server} is not a server name.",
            "Write a host name or an IP address, with :port if it has one; no scheme and no path.",
        )
    if facts.standing.is_self and is_loopback_name(facts.server):
        return warning(
            "name",
            f"This node is called {facts.server}, which leads every machine to itself.",
            "Other machines cannot reach it; `palaver init --server-name` begins a node that they can.",
        )
    return fine(
        "name", f"{facts.server} is a server name" + (", this node's own." if facts.standing.is_self else ".")
    )


def on_standing(facts: Facts) -> Iterator[Finding]:
    """What our own configuration says of it."""
    standing = facts.standing
    if standing.is_self:
        return
    if not standing.is_admitted:
        yield fault(
            "configuration",
            "This node neither asks it nor answers it: the configuration does not admit it.",
            f'Add a [[peers]] block with server_name = "{facts.server}", or set federation.mode to "open";'
            " and see that federation.refuse does not name it, and that it is no peer of agents that is not"
            " trusted.",
        )
    elif standing.is_configured:
        yield fine("configuration", "It is among the peers of this node.")
    else:
        yield fine("configuration", "This node speaks with every server.")
    if standing.is_plain:
        yield warning(
            "configuration",
            "It is spoken with in plain HTTP: whoever stands between can read and delay everything.",
            "Use it inside a network that you trust, and nowhere else.",
        )


def on_questions(facts: Facts, *, works: bool) -> Iterator[Finding]:
    """What was asked on the way. A question that nobody answered is nobody's fault where the way works all
    the same: most servers have no `.well-known`."""
    for question, answer in facts.asked:
        if isinstance(question, WellKnownQuery) and isinstance(answer, WellKnownAnswer):
            yield _on_well_known(question, answer, works)
        elif isinstance(question, SrvQuery) and isinstance(answer, SrvAnswer):
            yield _on_srv(question, answer, works)


def _on_well_known(question: WellKnownQuery, answer: WellKnownAnswer, works: bool) -> Finding:
    url = f"https://{question.host}/.well-known/matrix/server"
    if answer.delegated is not None:
        return fine("delegation", f"{url} names {answer.delegated}.")
    text = f"{url} names no other server: {question.host} {answer.problem or 'has none'}."
    if works or (not answer.failed and answer.problem.startswith("answered 4")):
        return fine("delegation", text)
    return warning(
        "delegation",
        text,
        'If there should be one, mend it: it is JSON such as {"m.server": "matrix.example.org:443"}, over'
        " HTTPS with a valid certificate. Otherwise look at what follows.",
    )


def _on_srv(question: SrvQuery, answer: SrvAnswer, works: bool) -> Finding:
    if answer.failed:
        text = f"The name servers did not say whether {question.name} has SRV records."
        advice = "Look at the name servers of that domain, and at those that this node asks."
        return fine("SRV records", text) if works else warning("SRV records", text, advice)
    if not answer.records:
        return fine("SRV records", f"{question.name} has none.")
    if is_refusal(answer.records):
        return fine("SRV records", f"{question.name} says that there is no such service.")
    shown = ", ".join(_record(record) for record in answer.records[:_SHOWN])
    text = f"{question.name} names {shown}."
    if question.name.startswith(SERVICES[1] + "."):
        return warning(
            "SRV records",
            f"{text} That service is deprecated.",
            f"Publish the same records under {SERVICES[0]} too, before servers cease to ask for the old"
            " ones.",
        )
    return fine("SRV records", text)


def _record(record: SrvRecord) -> str:
    place = f"{record.target.removesuffix('.')}:{record.port}"
    return f"{place} (priority {record.priority}, weight {record.weight})"


def on_route(facts: Facts) -> Finding:
    route = facts.route
    if isinstance(route, NoRoute):
        rule = f" (rule {route.step})" if route.step in _RULES else ""
        return fault(
            "way",
            f"No way leads to it: it {route.reason}{rule}.",
            "Ask whoever runs it; nothing can be done here.",
        )
    assert isinstance(route, Route), "whoever asks for it has found it"
    places = ", ".join(f"{one.host} port {one.port}" for one in route.candidates)
    why = f"rule {route.step}, {_RULES[route.step]}" if route.step in _RULES else "as the configuration says"
    shown = "" if facts.standing.is_plain else f", with a certificate for {route.certificate_name}"
    return fine("way", f"It is reached at {places} ({why}){shown}.")


def on_addresses(facts: Facts) -> Iterator[Finding]:
    for candidate in facts.names_without_address:
        yield fault(
            "address",
            f"{candidate.host} has no address: no A record, no AAAA record.",
            "Add them where the name is administered; or is it misspelt? New records take a while to be"
            " seen.",
        )
    if facts.places_left_out:
        yield warning(
            "address",
            f"It has {facts.places_left_out} more addresses, which were not examined.",
            "So many are hardly meant.",
        )


def is_loopback_name(server: str) -> bool:
    """Whether it leads every machine to itself."""
    parsed = parse_server_name(server)
    host = "" if parsed is None else parsed.host.lower()
    return host == "localhost" or host.startswith("127.") or host == "[::1]"


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


TIMEOUT: Final = 10.0
"""Seconds for a connection, and as many for the handshake on it."""


async def unreachable(place: Place) -> str | None:
    """Why there is no connection; None if there is one."""
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(place.address, place.candidate.port)
    except TimeoutError:
        return "nobody answers there"
    except OSError as error:
        return connection_failure(error)
    await _hang_up(writer)
    return None


async def shake_hands(place: Place, name: str, context: ssl.SSLContext) -> tuple[Handshake, bytes | None]:
    """With the certificate that was shown, if the handshake succeeded."""
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(
                place.address, place.candidate.port, ssl=context, server_hostname=name
            )
    except ssl.SSLCertVerificationError as error:
        return Handshake(code=error.verify_code, problem=error.verify_message), None
    except ssl.SSLError as error:
        problem = (error.reason or "it broke off the handshake").lower().replace("_", " ")
        return Handshake(problem=problem), None
    except TimeoutError:
        return Handshake(problem="it did not answer the handshake"), None
    except OSError:
        return Handshake(problem="it broke off the handshake"), None
    try:
        tls = writer.get_extra_info("ssl_object")
        der = tls.getpeercert(binary_form=True)
        return Handshake(tls.version(), certificate=read_certificate(der) if der else None), der
    finally:
        await _hang_up(writer)


async def _hang_up(writer: asyncio.StreamWriter) -> None:
    """At once: some servers do not answer a polite farewell."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def trusting() -> ssl.SSLContext:
    """To look at a certificate that is not believed. Nothing is said on such a connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinning(der: bytes) -> ssl.SSLContext:
    """Believes this one certificate, as long as it is valid and for the right name."""
    context = ssl.create_default_context(cadata=der)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context
