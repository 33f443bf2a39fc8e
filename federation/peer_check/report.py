"""From what was seen of a server to what is right and wrong with it, in the order in which one thing needs
another."""

from collections.abc import Iterator

from federation.peer_check.facts import Facts, Place
from federation.peer_check.finding import Finding
from federation.peer_check.keys import on_keys
from federation.peer_check.places import on_place
from federation.peer_check.talk import on_clock, on_signature, on_version
from federation.peer_check.way import on_addresses, on_name, on_questions, on_route, on_standing


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
