"""Findings about server discovery, addresses and TLS, and the test connections to single addresses."""

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
from federation.peers.check.certificate import explain_certificate_error, read_certificate
from federation.peers.check.facts import AddressProbe, Facts, Finding, TlsHandshake, Verdict, fault, fine, warning

# Server-server API, "Resolving server names": short descriptions of the steps by their numbers.
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
_MAX_SHOWN: Final = 5


def check_name(facts: Facts) -> Finding:
    parsed = parse_server_name(facts.server)
    if parsed is None:
        return fault(
            "name",
            f"{facts.server} is not a server name.",
            "Write a host name or an IP address, with :port if it has one; no scheme and no path.",
        )
    if facts.status.is_self and is_loopback_name(facts.server):
        return warning(
            "name",
            f"The server name of this node is {facts.server}, which points every machine to itself.",
            "Other machines cannot reach it; `palaver init --server-name` creates a node that they can.",
        )
    return fine("name", f"{facts.server} is a server name" + (", this node's own." if facts.status.is_self else "."))


def check_status(facts: Facts) -> Iterator[Finding]:
    """Report how the configuration of this node treats the server."""
    status = facts.status
    if status.is_self:
        return
    if not status.is_admitted:
        yield fault(
            "configuration",
            "This node does not federate with it: the configuration does not allow it.",
            f'Add a [[peers]] block with server_name = "{facts.server}", or set federation.mode to "open".'
            " Make sure that federation.refuse does not match it, and that it is not an untrusted peer of"
            " agents.",
        )
    elif status.is_configured:
        yield fine("configuration", "It is a configured peer of this node.")
    else:
        yield fine("configuration", "This node federates with every server.")
    if status.is_plain:
        yield warning(
            "configuration",
            "It is contacted over plain HTTP: anyone on the network path can read and delay everything.",
            "Use this only inside a network that you trust.",
        )


def check_queries(facts: Facts, *, works: bool) -> Iterator[Finding]:
    """Report the queries of the server discovery. A failed query is no problem if the server can be reached
    nevertheless: most servers have no `.well-known`."""
    for query, answer in facts.queries:
        if isinstance(query, WellKnownQuery) and isinstance(answer, WellKnownAnswer):
            yield _check_well_known(query, answer, works)
        elif isinstance(query, SrvQuery) and isinstance(answer, SrvAnswer):
            yield _check_srv(query, answer, works)


def _check_well_known(query: WellKnownQuery, answer: WellKnownAnswer, works: bool) -> Finding:
    url = f"https://{query.host}/.well-known/matrix/server"
    if answer.delegated is not None:
        return fine("delegation", f"{url} names {answer.delegated}.")
    text = f"{url} names no other server: {query.host} {answer.problem or 'has none'}."
    if works or (not answer.failed and answer.problem.startswith("answered 4")):
        return fine("delegation", text)
    return warning(
        "delegation",
        text,
        'If there should be one, fix it: it must be JSON such as {"m.server": "matrix.example.org:443"}, over'
        " HTTPS with a valid certificate. Otherwise see the next findings.",
    )


def _check_srv(query: SrvQuery, answer: SrvAnswer, works: bool) -> Finding:
    if answer.failed:
        text = f"The name servers did not answer whether {query.name} has SRV records."
        advice = "Check the name servers of that domain, and those that this node uses."
        return fine("SRV records", text) if works else warning("SRV records", text, advice)
    if not answer.records:
        return fine("SRV records", f"{query.name} has none.")
    if is_refusal(answer.records):
        return fine("SRV records", f"{query.name} declares that there is no such service.")
    shown = ", ".join(_record(record) for record in answer.records[:_MAX_SHOWN])
    text = f"{query.name} names {shown}."
    if query.name.startswith(SERVICES[1] + "."):
        return warning(
            "SRV records",
            f"{text} That service is deprecated.",
            f"Publish the same records under {SERVICES[0]} as well, before servers stop querying the old ones.",
        )
    return fine("SRV records", text)


def _record(record: SrvRecord) -> str:
    target = f"{record.target.removesuffix('.')}:{record.port}"
    return f"{target} (priority {record.priority}, weight {record.weight})"


def check_route(facts: Facts) -> Finding:
    route = facts.route
    if isinstance(route, NoRoute):
        rule = f" (rule {route.step})" if route.step in _RULES else ""
        return fault(
            "route",
            f"Server discovery failed: it {route.reason}{rule}.",
            "Only the operator of the server can fix this.",
        )
    assert isinstance(route, Route), "the server discovery was successful"
    probes = ", ".join(f"{one.host} port {one.port}" for one in route.candidates)
    why = f"rule {route.step}, {_RULES[route.step]}" if route.step in _RULES else "from the configuration"
    shown = "" if facts.status.is_plain else f", with a certificate for {route.certificate_name}"
    return fine("route", f"It is reached at {probes} ({why}){shown}.")


def check_addresses(facts: Facts) -> Iterator[Finding]:
    for candidate in facts.names_without_address:
        yield fault(
            "address",
            f"{candidate.host} has no address: no A record, no AAAA record.",
            "Add them to the DNS zone, or correct the name. New records take a while to become visible.",
        )
    if facts.addresses_left_out:
        yield warning(
            "address",
            f"It has {facts.addresses_left_out} more addresses, which were not tested.",
            "So many are probably a mistake.",
        )


def is_loopback_name(server: str) -> bool:
    """Whether the name resolves to the loopback interface on every machine."""
    parsed = parse_server_name(server)
    host = "" if parsed is None else parsed.host.lower()
    return host == "localhost" or host.startswith("127.") or host == "[::1]"


RENEWAL_MS: Final = 14 * 24 * 3600 * 1000
"""Before a certificate expires. Automatic renewal is usually a month before."""


def check_address(facts: Facts, probe: AddressProbe, *, works: bool) -> Iterator[Finding]:
    """Report the tests of an address. `works`: another address works, so that a problem with this one only
    costs time."""
    if probe.is_blocked and not (facts.status.is_self and is_loopback_name(facts.server)):
        yield _check_blocked(facts, probe)
    if probe.unreachable is not None:
        yield _fault_unless_works(
            works,
            probe.name,
            f"{probe.name} could not be reached: {probe.unreachable}.",
            _OPEN_THE_PORT if facts.status.is_self else _ASK_OPERATOR,
        )
    elif probe.handshake is not None:
        yield _check_handshake(facts, probe, probe.handshake, works)
    elif facts.status.is_plain and not probe.is_blocked:
        yield fine(probe.name, f"{probe.name} accepts connections.")


_OPEN_THE_PORT: Final = (
    "Check that this node listens there (`palaver status`), that a firewall allows connections, and that a router"
    " forwards them."
)
_ASK_OPERATOR: Final = (
    "Ask its operator whether it is running and its port open, and check that no firewall prevents this machine from"
    " connecting."
)


def _check_blocked(facts: Facts, probe: AddressProbe) -> Finding:
    if facts.status.is_self:
        return warning(
            probe.name,
            f"{probe.address} is not a public address, and other servers may not connect to it.",
            "Within one network, add a [[peers]] block for this node to the configuration of the others. Otherwise"
            " let the name point to a public address.",
        )
    return fault(
        probe.name,
        f"This node does not connect to {probe.address}: its network is blocked.",
        "If the address is correct, add a [[peers]] block for the server, or remove the network from"
        " federation.blocked_networks.",
    )


def _check_handshake(facts: Facts, probe: AddressProbe, handshake: TlsHandshake, works: bool) -> Finding:
    assert isinstance(facts.route, Route), "only the addresses of a route are tested"
    name = facts.route.certificate_name
    if handshake.version is None:
        if handshake.code is not None:
            text, advice = explain_certificate_error(
                handshake.code, handshake.problem or "", name, handshake.certificate
            )
            return _fault_unless_works(works, probe.name, f"{probe.name} {text}.", advice)
        return _fault_unless_works(
            works,
            probe.name,
            f"The TLS handshake with {probe.name} failed: {handshake.problem}.",
            "Federation needs HTTPS with TLS 1.2 or newer. Check the port, and that TLS is enabled on the server or"
            " its reverse proxy.",
        )
    certificate = handshake.certificate
    if certificate is None:
        return fine(probe.name, f"{probe.name} uses {handshake.version}, with a valid certificate for {name}.")
    ends = f"{datetime.fromtimestamp(min(certificate.ends, _LAST_MS) / 1000, UTC):%d %B %Y}"
    text = f"{probe.name} uses {handshake.version}; its certificate for {name} is valid until {ends}."
    if certificate.ends - facts.now_ms < RENEWAL_MS:
        return warning(probe.name, text, "Renew it soon; other servers will refuse it from then on.")
    if handshake.trusted_by_system is False:
        return warning(
            probe.name,
            f"{text} Only servers that trust its authority, {certificate.issuer}, accept it.",
            'Configured peers can name the authority (authority = "…/ca.pem" in a [[peers]] block; that of a'
            " development certificate is tls/ca.pem in the data directory). For all others you need a certificate"
            " of a public authority.",
        )
    return fine(probe.name, text)


_LAST_MS: Final = 253_402_300_799_000
"""The last second of the year 9999, the maximum time in a certificate."""


def _fault_unless_works(works: bool, subject: str, text: str, advice: str) -> Finding:
    if not works:
        return fault(subject, text, advice)
    return Finding(subject, Verdict.WARNING, f"{text} Another address works, after a delay.", advice)


TIMEOUT: Final = 10.0
"""Seconds for a connection, and for the handshake on it."""


async def unreachable(probe: AddressProbe) -> str | None:
    """Try to connect, and return why that failed; None if it succeeded."""
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(probe.address, probe.candidate.port)
    except TimeoutError:
        return "no response"
    except OSError as error:
        return connection_failure(error)
    await _close(writer)
    return None


async def tls_handshake(probe: AddressProbe, name: str, context: ssl.SSLContext) -> tuple[TlsHandshake, bytes | None]:
    """Try a TLS handshake. Returns the server's certificate too if it succeeded."""
    try:
        async with asyncio.timeout(TIMEOUT):
            _, writer = await asyncio.open_connection(
                probe.address, probe.candidate.port, ssl=context, server_hostname=name
            )
    except ssl.SSLCertVerificationError as error:
        return TlsHandshake(code=error.verify_code, problem=error.verify_message), None
    except ssl.SSLError as error:
        problem = (error.reason or "the handshake was aborted").lower().replace("_", " ")
        return TlsHandshake(problem=problem), None
    except TimeoutError:
        return TlsHandshake(problem="no response"), None
    except OSError:
        return TlsHandshake(problem="the connection was closed"), None
    try:
        tls = writer.get_extra_info("ssl_object")
        der = tls.getpeercert(binary_form=True)
        return TlsHandshake(tls.version(), certificate=read_certificate(der) if der else None), der
    finally:
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close without a TLS shutdown, which some servers do not answer."""
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def unverified_context() -> ssl.SSLContext:
    """A context that accepts any certificate, to read one that is not trusted. Nothing is sent on such a
    connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def pinned_context(der: bytes) -> ssl.SSLContext:
    """A context that trusts this one certificate, if it is valid and for the right name."""
    context = ssl.create_default_context(cadata=der)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    return context
