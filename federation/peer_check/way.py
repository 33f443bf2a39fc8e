"""How the server is found: its name, what the well-known and the name servers say, and where that leads."""

from collections.abc import Iterator
from typing import Final

from federation.identifiers import parse_server_name
from federation.peer_check.facts import Facts
from federation.peer_check.finding import Finding, fault, fine, warning
from federation.server_discovery import (
    SERVICES,
    AskSrv,
    AskWellKnown,
    NoRoute,
    Route,
    SrvAnswer,
    WellKnownAnswer,
)
from federation.srv_records import SrvRecord, is_refusal

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
        if isinstance(question, AskWellKnown) and isinstance(answer, WellKnownAnswer):
            yield _on_well_known(question, answer, works)
        elif isinstance(question, AskSrv) and isinstance(answer, SrvAnswer):
            yield _on_srv(question, answer, works)


def _on_well_known(question: AskWellKnown, answer: WellKnownAnswer, works: bool) -> Finding:
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


def _on_srv(question: AskSrv, answer: SrvAnswer, works: bool) -> Finding:
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
