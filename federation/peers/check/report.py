"""From what was seen of a server to what is right and wrong with it, in the order in which one thing needs
another.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from federation.client.errors import PeerNotAllowed, PeerRefused, PeerTimedOut, PeerTlsFailure
from federation.client.well_known import http_date
from federation.keys.key_documents import KeyDocument, ServerKey, merge_keys, parse_key_document
from federation.peers.check.connectivity import (
    on_addresses,
    on_name,
    on_place,
    on_questions,
    on_route,
    on_standing,
)
from federation.peers.check.facts import Asked, Facts, Finding, Place, Signed, fault, fine, warning


def report(facts: Facts) -> list[Finding]:
    return list(_findings(facts))


def _findings(facts: Facts) -> Iterator[Finding]:
    yield on_name(facts)
    yield from on_standing(facts)
    works = any(place.answers_as(facts.server) for place in facts.places)
    yield from on_questions(facts, works=works)
    if facts.route is None:
        return
    yield on_route(facts)
    yield from on_addresses(facts)
    answers: set[str] = set()
    for place in facts.places:
        yield from on_place(facts, place, works=works)
        # Two addresses of one server say the same.
        said = [finding for finding in _on_answers(facts, place) if str(finding) not in answers]
        answers |= set(map(str, said))
        yield from said
    if facts.signed is not None:
        yield on_signature(facts, facts.signed)


def _on_answers(facts: Facts, place: Place) -> Iterator[Finding]:
    if place.keys is not None:
        yield from on_keys(facts, place, place.keys)
    if place.version is not None:
        yield on_version(place.version)
    if place.keys is not None:
        yield from on_clock(place.keys)


SHORTEST_MS: Final = 3600 * 1000
"""Documents are published for at least an hour: who fetches one must be able to use it."""
_LONGEST: Final = 100


def on_keys(facts: Facts, place: Place, asked: Asked) -> Iterator[Finding]:
    if asked.problem is not None:
        yield _on_no_answer(place, asked)
        return
    said = asked.content.get("server_name")
    if isinstance(said, str) and said != facts.server:
        yield fault(
            "keys",
            f"{place.name} answers with the keys of {said[:_LONGEST]}.",
            f"It is another server, or calls itself so: its server_name must be {facts.server}, letter by"
            " letter; or the name, the .well-known or the proxy leads to the wrong place.",
        )
        return
    document = parse_key_document(asked.content, facts.server, facts.now_ms)
    if not isinstance(document, KeyDocument):
        yield fault(
            "keys",
            f"What {place.name} publishes {document.problem}.",
            "Nothing that it signs is believed. Its software is at fault, or something on the way that"
            " changes JSON.",
        )
        return
    yield from _on_document(facts, asked.content, document.keys)


def _on_no_answer(place: Place, asked: Asked) -> Finding:
    problem = asked.problem
    assert problem is not None, "there was no answer"
    if isinstance(problem, PeerTlsFailure):
        advice = "Look at its certificate, of which the line above says more."
    elif isinstance(problem, PeerRefused) and problem.status == 404:
        advice = (
            "Somebody answers there who is no Matrix server, or a proxy that does not pass on /_matrix/key"
            " and /_matrix/federation."
        )
    elif isinstance(problem, PeerRefused) and problem.status >= 500:
        advice = "A proxy that does not reach the server, or the server is in trouble: its log says more."
    elif isinstance(problem, PeerTimedOut):
        advice = "It takes connections and does not answer them: is it overloaded, does it hang?"
    else:
        advice = "It must answer with the JSON of a Matrix server."
    return fault("keys", f"{place.name} did not give its keys: it {problem.problem.rstrip('.')}.", advice)


def _on_document(facts: Facts, content: Mapping[str, Any], keys: tuple[ServerKey, ...]) -> Iterator[Finding]:
    current = [key for key in keys if key.expired_ts is None]
    until = min((key.valid_until_ts for key in current), default=0)
    ids = ", ".join(key.key_id for key in current)
    if until <= facts.now_ms:
        yield fault(
            "keys",
            f"It publishes {ids}, valid until {_moment(until)}, which is over.",
            "Its clock is wrong, or something on the way keeps old answers. (Or the clock of this machine is"
            " wrong.)",
        )
    elif until - facts.now_ms < SHORTEST_MS:
        yield warning(
            "keys",
            f"It publishes {ids}, valid for no more than {(until - facts.now_ms) // 60_000} minutes.",
            "Its clock is behind, or it publishes its keys for too short a time: an hour is the least.",
        )
    else:
        yield fine("keys", f"It publishes {ids}, signed by itself, valid until {_moment(until)}.")
    others = sorted(set(content.get("verify_keys", {})) - {key.key_id for key in current})
    if others:
        yield warning(
            "keys",
            f"It publishes keys that are not believed as well: {', '.join(others)[:_LONGEST]}.",
            "They are of an unknown kind, malformed, or did not sign the answer.",
        )
    if facts.standing.is_self:
        yield from _on_own(facts, current)
    else:
        yield from _on_known(facts, current)


def _on_own(facts: Facts, current: list[ServerKey]) -> Iterator[Finding]:
    """Whether it is this node that answers under its name."""
    if any(facts.own_keys.get(key.key_id) != key.public for key in current):
        yield fault(
            "keys",
            "They are not the keys of this node: another one answers under its name.",
            "The name leads to another machine, or an older installation still runs there. Two nodes must"
            " never have one name.",
        )


def _on_known(facts: Facts, current: list[ServerKey]) -> Iterator[Finding]:
    """A key id names one key for ever; another key under it is believed once the known one has run out."""
    for key in current:
        known = facts.known_keys.get(key.key_id)
        if known is not None and merge_keys(known, key, facts.now_ms).public != key.public:
            until = "what it signs is refused"
            if known.expired_ts is None:
                until += f" until {_moment(known.valid_until_ts)}"
            yield fault(
                "keys",
                f"{key.key_id} is another key than the one that this node knows by that name: {until}.",
                "The server was set up anew under its old name, or somebody pretends to be it. Whoever runs"
                " it should bring the old key back, or give the new one another id.",
            )


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(min(at_ms, 253_402_300_799_000) / 1000, UTC):%Y-%m-%d %H:%M} UTC"


SLIGHT_MS: Final = 60_000
GRAVE_MS: Final = 3600 * 1000
"""So long a key may be published for; a clock that is further off makes good keys look old."""


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
    date = None if asked.date is None else http_date(asked.date)
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
