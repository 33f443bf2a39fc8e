"""Where a server is reached: server-server API, "Resolving server names", as a conversation.

`discover` yields what it has to ask, is sent the answer, and returns the way, or why there is none. The
numbers in the comments are those of the specification's steps. Names are not turned into addresses here: that
is done anew whenever a connection is made, because an address changes more often than the way does.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from federation.client.srv_records import SrvRecord, in_order, is_refusal
from federation.matrix.identifiers import ServerName, parse_server_name

DEFAULT_PORT: Final = 8448
LONGEST: Final = 48 * 3600.0
"""Seconds. "Servers should additionally impose a maximum cache time for responses: 48 hours is
recommended.\""""

SERVICES: Final = ("_matrix-fed._tcp", "_matrix._tcp")
"""The first is the registered name, since v1.8; the second is deprecated, and in use."""

MOST_CANDIDATES: Final = 8


@dataclass(frozen=True, slots=True)
class AskWellKnown:
    """What `https://<host>/.well-known/matrix/server` says."""

    host: str


@dataclass(frozen=True, slots=True)
class AskSrv:
    """The SRV records of a name."""

    name: str


Question = AskWellKnown | AskSrv


@dataclass(frozen=True, slots=True)
class WellKnownAnswer:
    """The delegated server name, or None when nothing valid was answered.

    `lifetime`, in seconds, is how long the answer holds. `failed` when there may be an answer that was just
    not to be had now: no connection, a timeout, a server error. `problem` says what was wrong, for people.
    """

    delegated: str | None
    lifetime: float
    failed: bool = False
    problem: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class SrvAnswer:
    """The records, none if there are none. `failed` when the name servers could not say."""

    records: tuple[SrvRecord, ...]
    lifetime: float
    failed: bool = False


Answer = WellKnownAnswer | SrvAnswer


@dataclass(frozen=True, slots=True)
class Candidate:
    """Where to connect to: a DNS name, or an IP address without brackets."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Route:
    """How to reach a server. The candidates are tried in their order.

    `provisional`: a question failed on the way here, so that an earlier route may be the better one.
    """

    candidates: tuple[Candidate, ...]
    host_header: str
    certificate_name: str
    step: str
    lifetime: float
    provisional: bool = False


@dataclass(frozen=True, slots=True)
class NoRoute:
    """There is no way, and why."""

    reason: str
    step: str
    lifetime: float
    provisional: bool = False


Conversation = Generator[Question, Answer, Route | NoRoute]


def discover(server_name: str, draws: Sequence[float]) -> Conversation:
    """The way to a server. `draws`: `srv_records.MOST_RECORDS` random numbers between 0 and 1."""
    parsed = parse_server_name(server_name)
    if parsed is None:
        return NoRoute("is not a valid server name", "", LONGEST)
    # 1. "If the hostname is an IP literal, then that IP address should be used, together with the given port
    #    number, or 8448 if no port is given."
    # 2. "If the hostname is not an IP literal, and the server name includes an explicit port …"
    if parsed.is_ip_literal or parsed.port is not None:
        return _given(server_name, parsed, "1" if parsed.is_ip_literal else "2", LONGEST)
    # 3. "… a regular HTTPS request is made to `https://<hostname>/.well-known/matrix/server`."
    answer = yield AskWellKnown(parsed.host)
    assert isinstance(answer, WellKnownAnswer), "the well-known was asked for"
    delegated = parse_server_name(answer.delegated) if answer.delegated is not None else None
    if answer.delegated is not None and delegated is not None:
        if delegated.is_ip_literal or delegated.port is not None:
            # 3.1 and 3.2: an IP literal, or a name with a port.
            step = "3.1" if delegated.is_ip_literal else "3.2"
            return _given(answer.delegated, delegated, step, answer.lifetime)
        # 3.3 to 3.5: SRV records of the delegated name, then its port 8448.
        return (
            yield from _by_srv(delegated.host, ("3.3", "3.4", "3.5"), draws, answer.lifetime, answer.failed)
        )
    # "If the response is invalid (bad JSON, missing properties, non-200 response, etc), skip to step 4."
    # 4 to 6: the same with the name itself.
    return (yield from _by_srv(parsed.host, ("4", "5", "6"), draws, answer.lifetime, answer.failed))


def configured(server_name: str, address: str) -> Route | NoRoute:
    """The way that the configuration gives: another place to connect to, still for the server's own name."""
    name, place = parse_server_name(server_name), parse_server_name(address)
    if name is None or place is None:
        return NoRoute("has an address in the configuration that is none", "configured", LONGEST)
    there = _given(address, place, "configured", LONGEST)
    if isinstance(there, NoRoute):
        return there
    return replace(there, host_header=server_name, certificate_name=name.host.strip("[]"))


def _by_srv(
    host: str, steps: tuple[str, str, str], draws: Sequence[float], lifetime: float, failed: bool
) -> Conversation:
    """ "Requests are made to the resolved IP address and port […] with a `Host` header of `<hostname>`. The
    target server must present a valid certificate for `<hostname>`": DNS is not to be trusted with more."""
    for service, step in zip(SERVICES, steps, strict=False):
        answer = yield AskSrv(f"{service}.{host}")
        assert isinstance(answer, SrvAnswer), "SRV records were asked for"
        lifetime = min(lifetime, answer.lifetime)
        failed = failed or answer.failed
        if is_refusal(answer.records):
            return NoRoute("says in its SRV records that it does not federate", step, lifetime, failed)
        if candidates := _usable(answer.records, draws):
            return Route(candidates, host, host, step, min(lifetime, LONGEST), failed)
    return Route((Candidate(host, DEFAULT_PORT),), host, host, steps[2], min(lifetime, LONGEST), failed)


def _usable(records: Sequence[SrvRecord], draws: Sequence[float]) -> tuple[Candidate, ...]:
    """The servers that the records name, in the order in which to try them, without senseless records."""
    candidates = []
    for record in in_order(records, draws):
        target = parse_server_name(record.target.removesuffix("."))
        if target is not None and target.port is None and 0 < record.port <= 65_535:
            candidates.append(Candidate(target.host.strip("[]"), record.port))
    return tuple(dict.fromkeys(candidates))[:MOST_CANDIDATES]


def _given(name: str, parsed: ServerName, step: str, lifetime: float) -> Route | NoRoute:
    """The name says it all: address or host, and perhaps a port. `Host` is the name as it is written."""
    port = DEFAULT_PORT if parsed.port is None else parsed.port
    if port == 0:
        return NoRoute("names port 0, which nobody can listen on", step, min(lifetime, LONGEST))
    host = parsed.host.strip("[]")
    return Route((Candidate(host, port),), name, host, step, min(lifetime, LONGEST))
