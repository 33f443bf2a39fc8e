"""The keys that the server publishes: whose they are, whether they hold, and whether this node will believe
them."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from federation.key_documents import KeyDocument, ServerKey, merge, read
from federation.peer_check.facts import Asked, Facts, Place
from federation.peer_check.finding import Finding, fault, fine, warning
from federation.peer_errors import PeerRefused, PeerTimedOut, PeerTlsFailure

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
    document = read(asked.content, facts.server, facts.now_ms)
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
        if known is not None and merge(known, key, facts.now_ms).public != key.public:
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
