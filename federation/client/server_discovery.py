"""Server discovery: server-server API, "Resolving server names", as a generator.

`discover` yields queries, receives their answers, and returns the route, or why there is none. The numbers in
the comments are those of the specification's steps. Names are not resolved to addresses here: that is done
for each connection, because addresses change more often than routes.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from federation.client.srv_records import SrvRecord, in_order, is_refusal
from federation.matrix.identifiers import ServerName, parse_server_name

DEFAULT_PORT: Final = 8448
MAX_LIFETIME: Final = 48 * 3600.0
"""Seconds. "Servers should additionally impose a maximum cache time for responses: 48 hours is
recommended.\""""

SERVICES: Final = ("_matrix-fed._tcp", "_matrix._tcp")
"""The first is the registered service name, since v1.8. The second is deprecated, but still in use."""

MAX_CANDIDATES: Final = 8


@dataclass(frozen=True, slots=True)
class WellKnownQuery:
    """A request for `https://<host>/.well-known/matrix/server`."""

    host: str


@dataclass(frozen=True, slots=True)
class SrvQuery:
    """A query for the SRV records of a name."""

    name: str


DiscoveryQuery = WellKnownQuery | SrvQuery


@dataclass(frozen=True, slots=True)
class WellKnownAnswer:
    """The delegated server name, or None if there was no valid response.

    `lifetime`: seconds for which the answer may be cached. `failed`: a temporary failure (no connection, a
    timeout, a server error), so there may be a delegation. `problem` describes what was wrong, for people.
    """

    delegated: str | None
    lifetime: float
    failed: bool = False
    problem: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class SrvAnswer:
    """The SRV records of a name. `failed`: the name servers did not answer."""

    records: tuple[SrvRecord, ...]
    lifetime: float
    failed: bool = False


DiscoveryAnswer = WellKnownAnswer | SrvAnswer


@dataclass(frozen=True, slots=True)
class Candidate:
    """A host and port to connect to. `host` is a DNS name, or an IP address without brackets."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Route:
    """How to reach a server. The candidates are tried in their order.

    `provisional`: a query failed during the discovery, so an earlier route may be better.
    """

    candidates: tuple[Candidate, ...]
    host_header: str
    certificate_name: str
    step: str
    lifetime: float
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class NoRoute:
    """The server cannot be reached, for this reason."""

    reason: str
    step: str
    lifetime: float
    provisional: bool = False


Discovery = Generator[DiscoveryQuery, DiscoveryAnswer, Route | NoRoute]


def discover(server_name: str, draws: Sequence[float]) -> Discovery:
    """Discover the route to a server. `draws`: `srv_records.MAX_RECORDS` random numbers between 0 and 1."""
    parsed = parse_server_name(server_name)
    if parsed is None:
        return NoRoute("is not a valid server name", "", MAX_LIFETIME)
    # 1. "If the hostname is an IP literal, then that IP address should be used, together with the given port
    #    number, or 8448 if no port is given."
    # 2. "If the hostname is not an IP literal, and the server name includes an explicit port …"
    if parsed.is_ip_literal or parsed.port is not None:
        return _direct_route(server_name, parsed, "1" if parsed.is_ip_literal else "2", MAX_LIFETIME)
    # 3. "… a regular HTTPS request is made to `https://<hostname>/.well-known/matrix/server`."
    answer = yield WellKnownQuery(parsed.host)
    assert isinstance(answer, WellKnownAnswer), "the query was for the well-known"
    delegated = parse_server_name(answer.delegated) if answer.delegated is not None else None
    if answer.delegated is not None and delegated is not None:
        if delegated.is_ip_literal or delegated.port is not None:
            # 3.1 and 3.2: an IP literal, or a name with a port.
            step = "3.1" if delegated.is_ip_literal else "3.2"
            return _direct_route(answer.delegated, delegated, step, answer.lifetime)
        # 3.3 to 3.5: SRV records of the delegated name, then its port 8448.
        return (yield from _by_srv(delegated.host, ("3.3", "3.4", "3.5"), draws, answer.lifetime, answer.failed))
    # "If the response is invalid (bad JSON, missing properties, non-200 response, etc), skip to step 4."
    # 4 to 6: the same with the server name itself.
    return (yield from _by_srv(parsed.host, ("4", "5", "6"), draws, answer.lifetime, answer.failed))


def configured_route(server_name: str, address: str) -> Route | NoRoute:
    """The route to the address in the configuration. Host header and certificate remain those of the server
    name."""
    name, parsed = parse_server_name(server_name), parse_server_name(address)
    if name is None or parsed is None:
        return NoRoute("has an invalid address in the configuration", "configured", MAX_LIFETIME)
    route = _direct_route(address, parsed, "configured", MAX_LIFETIME)
    if isinstance(route, NoRoute):
        return route
    return replace(route, host_header=server_name, certificate_name=name.host.strip("[]"))


def _by_srv(host: str, steps: tuple[str, str, str], draws: Sequence[float], lifetime: float, failed: bool) -> Discovery:
    """ "Requests are made to the resolved IP address and port […] with a `Host` header of `<hostname>`. The
    target server must present a valid certificate for `<hostname>`": DNS is not trusted with anything
    else."""
    for service, step in zip(SERVICES, steps, strict=False):
        answer = yield SrvQuery(f"{service}.{host}")
        assert isinstance(answer, SrvAnswer), "the query was for SRV records"
        lifetime = min(lifetime, answer.lifetime)
        failed = failed or answer.failed
        if is_refusal(answer.records):
            return NoRoute("declares in its SRV records that it does not federate", step, lifetime, failed)
        if candidates := _candidates(answer.records, draws):
            return Route(candidates, host, host, step, min(lifetime, MAX_LIFETIME), failed)
    return Route((Candidate(host, DEFAULT_PORT),), host, host, steps[2], min(lifetime, MAX_LIFETIME), failed)


def _candidates(records: Sequence[SrvRecord], draws: Sequence[float]) -> tuple[Candidate, ...]:
    """The targets of the valid records, in the order in which to try them."""
    candidates = []
    for record in in_order(records, draws):
        target = parse_server_name(record.target.removesuffix("."))
        if target is not None and target.port is None and 0 < record.port <= 65_535:
            candidates.append(Candidate(target.host.strip("[]"), record.port))
    return tuple(dict.fromkeys(candidates))[:MAX_CANDIDATES]


def _direct_route(name: str, parsed: ServerName, step: str, lifetime: float) -> Route | NoRoute:
    """The route to a server name that needs no further query. The Host header is the name as it is
    written."""
    port = DEFAULT_PORT if parsed.port is None else parsed.port
    if port == 0:
        return NoRoute("names port 0, which is not a valid port", step, min(lifetime, MAX_LIFETIME))
    host = parsed.host.strip("[]")
    return Route((Candidate(host, port),), name, host, step, min(lifetime, MAX_LIFETIME))
