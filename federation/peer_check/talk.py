"""What the server says of itself, whether its clock is right, and whether it believes us."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from federation.http_date import read_http_date
from federation.peer_check.facts import Asked, Facts, Signed
from federation.peer_check.finding import Finding, fault, fine, warning
from federation.peer_errors import PeerNotAllowed, PeerRefused, PeerTimedOut

SLIGHT_MS: Final = 60_000
GRAVE_MS: Final = 3600 * 1000
"""So long a key may be published for; a clock that is further off makes good keys look old."""
_LONGEST: Final = 100


def on_version(asked: Asked) -> Finding:
    server = asked.content.get("server")
    if asked.problem is None and isinstance(server, dict) and isinstance(server.get("name"), str):
        version = server.get("version")
        shown = f"{server['name']} {version}" if isinstance(version, str) else server["name"]
        return fine("software", f"It is {shown[:_LONGEST]}.")
    why = f": it {asked.problem.problem.rstrip('.')}" if asked.problem is not None else ""
    return warning(
        "software",
        f"It does not say what it is{why}.",
        "A proxy may pass on /_matrix/key and not /_matrix/federation, without which nothing else works.",
    )


def on_clock(asked: Asked) -> Iterator[Finding]:
    """By the header `Date`, which is cut to seconds."""
    date = None if asked.date is None else read_http_date(asked.date)
    if date is None or asked.problem is not None:
        return
    date_ms = int((date - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000)
    middle = (asked.sent_at + asked.came_at) // 2
    difference = date_ms + 500 - middle
    # It was written at some time while we waited.
    certain = max(0, abs(difference) - (asked.came_at - asked.sent_at) // 2 - 500)
    if certain < SLIGHT_MS:
        yield fine("clock", "Its clock agrees with this machine's.")
        return
    way = "ahead" if difference > 0 else "behind"
    text = f"Its clock is {way} by {certain // 1000} seconds, or this machine's is not right."
    advice = "Let both follow a time server (NTP)."
    if certain < GRAVE_MS:
        yield warning("clock", text, advice)
    else:
        yield fault(
            "clock", text, f"{advice} With clocks so far apart valid keys are taken for expired ones."
        )


def on_signature(facts: Facts, signed: Signed) -> Finding:
    """It was asked for an event that does not exist: who says so has believed our signature."""
    problem = signed.problem
    if problem is None or _says_that_there_is_none(problem):
        return fine("signature", f"It believes what {facts.own_name} signs.")
    if isinstance(problem, PeerRefused):
        said = (problem.text or problem.errcode or "it does not say why").rstrip(".")
        if problem.status == 401:
            return fault(
                "signature",
                f"It does not believe what {facts.own_name} signs: {said}.",
                "It must be able to fetch this node's keys: `palaver peers check --self` says whether this"
                " node can be reached. If this node was set up anew under its old name, the other one may"
                " still hold its old key.",
            )
        if problem.status == 403:
            return fault(
                "signature",
                f"It refuses to speak with {facts.own_name}: {said}.",
                "Whoever runs it must admit this node: a [[peers]] block in Palaver,"
                " federation_domain_whitelist in Synapse.",
            )
        if problem.status == 429:
            return warning(
                "signature", "It asks to be given time, so it was not tried.", "Try again in a minute."
            )
        if problem.errcode == "M_UNRECOGNIZED" or problem.status in (404, 405):
            return warning(
                "signature",
                f"Whether it believes what {facts.own_name} signs could not be tried: it does not know the"
                " request.",
                "A proxy may not pass on all of /_matrix/federation.",
            )
    if isinstance(problem, PeerNotAllowed):
        return warning(
            "signature", "It was not asked: our own configuration does not admit it.", "See above."
        )
    if isinstance(problem, PeerTimedOut):
        advice = (
            "It may be waiting for this node's keys: `palaver peers check --self` says whether it gets them."
        )
    else:
        advice = "Its log says why."
    return fault("signature", f"A signed request did not end well: it {problem.problem.rstrip('.')}.", advice)


def _says_that_there_is_none(problem: Exception) -> bool:
    """Synapse has no errcode there; whoever does not know the request has one for that."""
    return (
        isinstance(problem, PeerRefused)
        and problem.status == 404
        and problem.errcode in (None, "M_NOT_FOUND", "M_UNKNOWN")
    )
