"""Evaluates the facts about a server as a list of findings, each after those that it depends on."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from federation.client.errors import PeerNotAllowed, PeerRefused, PeerTimedOut, PeerTlsFailure
from federation.client.well_known import http_date
from federation.keys.key_documents import KeyDocument, ServerKey, merge_keys, parse_key_document
from federation.peers.check.connectivity import (
    check_address,
    check_addresses,
    check_name,
    check_queries,
    check_route,
    check_status,
)
from federation.peers.check.facts import AddressProbe, Facts, Finding, ProbeResponse, SignedProbe, fault, fine, warning


def report(facts: Facts) -> list[Finding]:
    return list(_findings(facts))


def _findings(facts: Facts) -> Iterator[Finding]:
    yield check_name(facts)
    yield from check_status(facts)
    works = any(probe.answers_as(facts.server) for probe in facts.probes)
    yield from check_queries(facts, works=works)
    if facts.route is None:
        return
    yield check_route(facts)
    yield from check_addresses(facts)
    seen: set[str] = set()
    for probe in facts.probes:
        yield from check_address(facts, probe, works=works)
        # Two addresses of one server have the same findings.
        new = [finding for finding in _check_responses(facts, probe) if str(finding) not in seen]
        seen |= set(map(str, new))
        yield from new
    if facts.signed is not None:
        yield check_signature(facts, facts.signed)


def _check_responses(facts: Facts, probe: AddressProbe) -> Iterator[Finding]:
    if probe.keys is not None:
        yield from check_keys(facts, probe, probe.keys)
    if probe.version is not None:
        yield check_version(probe.version)
    if probe.keys is not None:
        yield from check_clock(probe.keys)


MIN_VALIDITY_MS: Final = 3600 * 1000
"""Key documents are published for at least an hour, so that servers that fetch one can use it."""
_MAX_LENGTH: Final = 100


def check_keys(facts: Facts, probe: AddressProbe, response: ProbeResponse) -> Iterator[Finding]:
    if response.problem is not None:
        yield _missing_keys(probe, response)
        return
    name = response.content.get("server_name")
    if isinstance(name, str) and name != facts.server:
        yield fault(
            "keys",
            f"{probe.name} returns the keys of {name[:_MAX_LENGTH]}.",
            f"It is another server, or has another server_name: that must be exactly {facts.server}. Or the DNS"
            " name, the .well-known or the proxy points to the wrong server.",
        )
        return
    document = parse_key_document(response.content, facts.server, facts.now_ms)
    if not isinstance(document, KeyDocument):
        yield fault(
            "keys",
            f"The key document of {probe.name} is invalid: it {document.problem}.",
            "Its signatures cannot be verified. Its software is at fault, or a proxy that changes JSON.",
        )
        return
    yield from _check_document(facts, response.content, document.keys)


def _missing_keys(probe: AddressProbe, response: ProbeResponse) -> Finding:
    problem = response.problem
    assert problem is not None, "there was no valid response"
    if isinstance(problem, PeerTlsFailure):
        advice = "See the finding about its certificate above."
    elif isinstance(problem, PeerRefused) and problem.status == 404:
        advice = "That is not a Matrix server, or a proxy that does not forward /_matrix/key and /_matrix/federation."
    elif isinstance(problem, PeerRefused) and problem.status >= 500:
        advice = "A proxy cannot reach the server, or the server has failed: see its log."
    elif isinstance(problem, PeerTimedOut):
        advice = "It accepts connections but does not respond: it may be overloaded or hang."
    else:
        advice = "It must answer with the JSON of a Matrix server."
    return fault("keys", f"{probe.name} did not return its keys: it {problem.problem.rstrip('.')}.", advice)


def _check_document(facts: Facts, content: Mapping[str, Any], keys: tuple[ServerKey, ...]) -> Iterator[Finding]:
    current = [key for key in keys if key.expired_ts is None]
    until = min((key.valid_until_ts for key in current), default=0)
    ids = ", ".join(key.key_id for key in current)
    if until <= facts.now_ms:
        yield fault(
            "keys",
            f"It publishes {ids}, valid until {_datetime(until)}, which has passed.",
            "Its clock is wrong, or a proxy caches old responses, or the clock of this machine is wrong.",
        )
    elif until - facts.now_ms < MIN_VALIDITY_MS:
        yield warning(
            "keys",
            f"It publishes {ids}, valid for only {(until - facts.now_ms) // 60_000} minutes.",
            "Its clock is behind, or it publishes its keys for too short a time: the minimum is an hour.",
        )
    else:
        yield fine("keys", f"It publishes {ids}, validly signed, valid until {_datetime(until)}.")
    others = sorted(set(content.get("verify_keys", {})) - {key.key_id for key in current})
    if others:
        yield warning(
            "keys",
            f"It also publishes keys that are not valid: {', '.join(others)[:_MAX_LENGTH]}.",
            "They have an unknown algorithm, are malformed, or have not signed the document.",
        )
    if facts.status.is_self:
        yield from _check_own_keys(facts, current)
    else:
        yield from _check_known_keys(facts, current)


def _check_own_keys(facts: Facts, current: list[ServerKey]) -> Iterator[Finding]:
    """Check that it is this node that answers under its own name."""
    if any(facts.own_keys.get(key.key_id) != key.public for key in current):
        yield fault(
            "keys",
            "They are not the keys of this node: another node answers under its name.",
            "The name points to another machine, or an older installation still runs there. Two nodes must"
            " never have the same name.",
        )


def _check_known_keys(facts: Facts, current: list[ServerKey]) -> Iterator[Finding]:
    """Compare with the known keys. A different key under a known key id is accepted only after the known key
    has expired."""
    for key in current:
        known = facts.known_keys.get(key.key_id)
        if known is not None and merge_keys(known, key, facts.now_ms).public != key.public:
            until = "its signatures are refused"
            if known.expired_ts is None:
                until += f" until {_datetime(known.valid_until_ts)}"
            yield fault(
                "keys",
                f"{key.key_id} is not the key that this node knows under that id: {until}.",
                "The server was reinstalled under its old name, or another server impersonates it. Its operator"
                " should restore the old key, or give the new one another id.",
            )


def _datetime(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, 253_402_300_799_000) / 1000, UTC):%Y-%m-%d %H:%M} UTC"


WARNING_MS: Final = 60_000
FAULT_MS: Final = 3600 * 1000
"""The minimum validity of published keys. With a larger clock difference, valid keys appear to be expired."""


def check_version(response: ProbeResponse) -> Finding:
    server = response.content.get("server")
    if response.problem is None and isinstance(server, dict) and isinstance(server.get("name"), str):
        version = server.get("version")
        shown = f"{server['name']} {version}" if isinstance(version, str) else server["name"]
        return fine("software", f"It is {shown[:_MAX_LENGTH]}.")
    why = f": it {response.problem.problem.rstrip('.')}" if response.problem is not None else ""
    return warning(
        "software",
        f"It does not return its software version{why}.",
        "A proxy may forward /_matrix/key but not /_matrix/federation, which everything else needs.",
    )


def check_clock(response: ProbeResponse) -> Iterator[Finding]:
    """Compare the clocks by the Date header, which has a resolution of seconds."""
    date = None if response.date is None else http_date(response.date)
    if date is None or response.problem is not None:
        return
    date_ms = int((date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    middle = (response.sent_at + response.received_at) // 2
    difference = date_ms + 500 - middle
    # The header was written at some time between the request and the response.
    certain = max(0, abs(difference) - (response.received_at - response.sent_at) // 2 - 500)
    if certain < WARNING_MS:
        yield fine("clock", "Its clock agrees with this machine's.")
        return
    direction = "ahead" if difference > 0 else "behind"
    text = f"Its clock is {direction} by {certain // 1000} seconds, or this machine's is wrong."
    advice = "Synchronise both with a time server (NTP)."
    if certain < FAULT_MS:
        yield warning("clock", text, advice)
    else:
        yield fault("clock", text, f"{advice} With such a difference, valid keys are considered expired.")


def check_signature(facts: Facts, signed: SignedProbe) -> Finding:
    """Evaluate a signed request for an event that does not exist: "not found" means that the signature is
    valid."""
    problem = signed.problem
    if problem is None or _is_not_found(problem):
        return fine("signature", f"It accepts the signature of {facts.own_name}.")
    if isinstance(problem, PeerRefused):
        reason = (problem.text or problem.errcode or "without a reason").rstrip(".")
        if problem.status == 401:
            return fault(
                "signature",
                f"It does not accept the signature of {facts.own_name}: {reason}.",
                "It must be able to fetch this node's keys: `palaver peers check --self` shows whether this"
                " node can be reached. If this node was reinstalled under its old name, the other server may"
                " still have its old key.",
            )
        if problem.status == 403:
            return fault(
                "signature",
                f"It refuses to federate with {facts.own_name}: {reason}.",
                "Its operator must allow this node: with a [[peers]] block in Palaver,"
                " federation_domain_whitelist in Synapse.",
            )
        if problem.status == 429:
            return warning("signature", "It has limited the rate, so this was not tested.", "Try again in a minute.")
        if problem.errcode == "M_UNRECOGNIZED" or problem.status in (404, 405):
            return warning(
                "signature",
                f"Whether it accepts the signature of {facts.own_name} could not be tested: it does not know the"
                " request.",
                "A proxy may not forward all of /_matrix/federation.",
            )
    if isinstance(problem, PeerNotAllowed):
        return warning(
            "signature", "This was not tested: the configuration of this node does not allow it.", "See above."
        )
    if isinstance(problem, PeerTimedOut):
        advice = "It may be waiting for this node's keys: `palaver peers check --self` shows whether it can fetch them."
    else:
        advice = "See its log for the reason."
    return fault("signature", f"A signed request failed: it {problem.problem.rstrip('.')}.", advice)


def _is_not_found(problem: Exception) -> bool:
    """Whether the error means that there is no such event. Synapse returns no errcode for that; a server that
    does not know the request returns another one."""
    return (
        isinstance(problem, PeerRefused)
        and problem.status == 404
        and problem.errcode in (None, "M_NOT_FOUND", "M_UNKNOWN")
    )
