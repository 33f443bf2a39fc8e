"""Server-server API, "Resolving server names": every step by its number."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.client.server_discovery import (
    MAX_CANDIDATES,
    MAX_LIFETIME,
    Candidate,
    DiscoveryAnswer,
    DiscoveryQuery,
    NoRoute,
    Route,
    SrvAnswer,
    SrvQuery,
    WellKnownAnswer,
    WellKnownQuery,
    configured_route,
    discover,
)
from federation.client.srv_records import MAX_RECORDS, SrvRecord

DRAWS = [0.5] * MAX_RECORDS
NOTHING = SrvAnswer((), 3600.0)
NONE_KNOWN = WellKnownAnswer(None, 3600.0)


def srv(*targets: tuple[str, int], lifetime: float = 3600.0) -> SrvAnswer:
    return SrvAnswer(tuple(SrvRecord(at, 1, port, name) for at, (name, port) in enumerate(targets)), lifetime)


def run_discovery(
    name: str, answers: Mapping[DiscoveryQuery, DiscoveryAnswer]
) -> tuple[Route | NoRoute, list[DiscoveryQuery]]:
    """Run the discovery. Queries that are not in `answers` find nothing."""
    asked: list[DiscoveryQuery] = []
    conversation = discover(name, DRAWS)
    try:
        question = next(conversation)
        while True:
            asked.append(question)
            nothing = NONE_KNOWN if isinstance(question, WellKnownQuery) else NOTHING
            question = conversation.send(answers.get(question, nothing))
    except StopIteration as end:
        return end.value, asked


def found(name: str, answers: Mapping[DiscoveryQuery, DiscoveryAnswer]) -> tuple[str, list[tuple[str, int]], str, str]:
    route, _ = run_discovery(name, answers)
    assert isinstance(route, Route)
    places = [(one.host, one.port) for one in route.candidates]
    return route.step, places, route.host_header, route.certificate_name


@pytest.mark.parametrize(
    ("name", "place", "certificate"),
    [
        ("1.2.3.4", ("1.2.3.4", 8448), "1.2.3.4"),
        ("1.2.3.4:80", ("1.2.3.4", 80), "1.2.3.4"),
        ("[1234:5678::abcd]", ("1234:5678::abcd", 8448), "1234:5678::abcd"),
        ("[1234:5678::abcd]:7676", ("1234:5678::abcd", 7676), "1234:5678::abcd"),
    ],
)
def test_step_1_an_ip_literal(name: str, place: tuple[str, int], certificate: str) -> None:
    """No query. `Host` is the server name; the certificate is for the address."""
    assert found(name, {}) == ("1", [place], name, certificate)
    assert run_discovery(name, {})[1] == []


def test_step_2_an_explicit_port() -> None:
    """No query. `Host` has the port, the certificate does not."""
    assert found("a.test:7676", {}) == ("2", [("a.test", 7676)], "a.test:7676", "a.test")
    assert run_discovery("a.test:7676", {})[1] == []


def well_known(delegated: str) -> dict[DiscoveryQuery, DiscoveryAnswer]:
    return {WellKnownQuery("a.test"): WellKnownAnswer(delegated, 1000.0)}


@pytest.mark.parametrize(
    ("delegated", "place", "certificate", "step"),
    [
        ("1.2.3.4", ("1.2.3.4", 8448), "1.2.3.4", "3.1"),
        ("1.2.3.4:90", ("1.2.3.4", 90), "1.2.3.4", "3.1"),
        ("[::1]:90", ("::1", 90), "::1", "3.1"),
        ("b.test:443", ("b.test", 443), "b.test", "3.2"),
    ],
)
def test_steps_3_1_and_3_2_a_delegation_with_address_or_port(
    delegated: str, place: tuple[str, int], certificate: str, step: str
) -> None:
    """ "Requests must be made with a `Host` header of `<delegated_hostname>:<delegated_port>`." """
    assert found("a.test", well_known(delegated)) == (step, [place], delegated, certificate)
    assert run_discovery("a.test", well_known(delegated))[1] == [WellKnownQuery("a.test")]


def test_step_3_3_srv_of_the_delegated_name() -> None:
    """`Host` and certificate are for the delegated name, not for the SRV target."""
    answers = well_known("b.test") | {SrvQuery("_matrix-fed._tcp.b.test"): srv(("c.test.", 1), ("d.test", 2))}
    assert found("a.test", answers) == ("3.3", [("c.test", 1), ("d.test", 2)], "b.test", "b.test")


def test_step_3_4_the_old_srv_of_the_delegated_name() -> None:
    """Deprecated, and only queried if there is no new one."""
    answers = well_known("b.test") | {SrvQuery("_matrix._tcp.b.test"): srv(("c.test.", 1))}
    assert found("a.test", answers) == ("3.4", [("c.test", 1)], "b.test", "b.test")


def test_step_3_5_the_delegated_name_itself() -> None:
    """Its well-known is not fetched: a delegation is not delegated again."""
    assert found("a.test", well_known("b.test")) == ("3.5", [("b.test", 8448)], "b.test", "b.test")
    assert run_discovery("a.test", well_known("b.test"))[1] == [
        WellKnownQuery("a.test"),
        SrvQuery("_matrix-fed._tcp.b.test"),
        SrvQuery("_matrix._tcp.b.test"),
    ]


@pytest.mark.parametrize(("service", "step"), [("_matrix-fed", "4"), ("_matrix", "5")])
def test_steps_4_and_5_srv(service: str, step: str) -> None:
    """ "The target server must present a valid certificate for `<hostname>`." """
    answers: dict[DiscoveryQuery, DiscoveryAnswer] = {SrvQuery(f"{service}._tcp.a.test"): srv(("c.test.", 1))}
    assert found("a.test", answers) == (step, [("c.test", 1)], "a.test", "a.test")


def test_step_6_port_8448() -> None:
    """If nothing else is found."""
    assert found("a.test", {}) == ("6", [("a.test", 8448)], "a.test", "a.test")


@pytest.mark.parametrize("delegated", ["not valid!", "", "b.test:99999", "http://b.test"])
def test_an_invalid_delegation_is_none(delegated: str) -> None:
    """ "If the response is invalid […], skip to step 4." """
    assert found("a.test", well_known(delegated))[0] == "6"


@pytest.mark.parametrize("name", ["", "a b", "a.test:", "[::1", "a.test:0", "1.2.3.4:0", "ä.test"])
def test_an_invalid_server_name_has_no_route(name: str) -> None:
    """Without a query, and with a reason."""
    route, asked = run_discovery(name, {})
    assert isinstance(route, NoRoute)
    assert route.reason
    assert asked == []


def test_a_refused_service_has_no_route() -> None:
    """RFC 2782: a target of "." is an answer."""
    answers: dict[DiscoveryQuery, DiscoveryAnswer] = {SrvQuery("_matrix-fed._tcp.a.test"): srv((".", 0))}
    route, asked = run_discovery("a.test", answers)
    assert isinstance(route, NoRoute)
    assert asked[-1] == SrvQuery("_matrix-fed._tcp.a.test")


def test_invalid_records_are_ignored() -> None:
    """Port 0, a target that is not a host name, a duplicate."""
    records = srv(("a b.", 1), ("c.test.", 0), ("d.test.", 4), ("d.test", 4), ("e.test:5.", 5))
    assert found("a.test", {SrvQuery("_matrix-fed._tcp.a.test"): records})[1] == [("d.test", 4)]
    senseless = srv(("a b.", 1), ("c.test.", 0))
    assert found("a.test", {SrvQuery("_matrix-fed._tcp.a.test"): senseless})[0] == "6"


def test_the_lifetime_of_a_route_is_that_of_its_shortest_answer() -> None:
    """And at most 48 hours."""
    answers: dict[DiscoveryQuery, DiscoveryAnswer] = {
        WellKnownQuery("a.test"): WellKnownAnswer("b.test", 5000.0),
        SrvQuery("_matrix-fed._tcp.b.test"): srv(("c.test", 1), lifetime=700.0),
    }
    assert run_discovery("a.test", answers)[0].lifetime == 700.0
    assert run_discovery("a.test:1", {})[0].lifetime == MAX_LIFETIME


def test_a_route_found_after_a_failure_is_provisional() -> None:
    """Name servers that do not answer may have a record."""
    silent: dict[DiscoveryQuery, DiscoveryAnswer] = {
        SrvQuery("_matrix-fed._tcp.a.test"): SrvAnswer((), 60.0, failed=True)
    }
    assert run_discovery("a.test", silent)[0].provisional
    down: dict[DiscoveryQuery, DiscoveryAnswer] = {WellKnownQuery("a.test"): WellKnownAnswer(None, 300.0, failed=True)}
    assert run_discovery("a.test", down)[0].provisional
    assert not run_discovery("a.test", {})[0].provisional


def test_a_configured_address_changes_only_the_candidate() -> None:
    """`Host` and certificate stay those of the server's own name."""
    assert configured_route("kitchen.local", "10.0.0.7:7676") == Route(
        (Candidate("10.0.0.7", 7676),), "kitchen.local", "kitchen.local", "configured", MAX_LIFETIME
    )
    assert configured_route("[::1]:7676", "localhost") == Route(
        (Candidate("localhost", 8448),), "[::1]:7676", "::1", "configured", MAX_LIFETIME
    )
    for address in ("", "a b", "a.test:0"):
        assert isinstance(configured_route("kitchen.local", address), NoRoute)


ANY_ANSWER = {
    WellKnownQuery: st.builds(
        WellKnownAnswer,
        delegated=st.none() | st.text() | st.sampled_from(["b.test", "b.test:1", "1.2.3.4", "a.test", "[::1]:0"]),
        lifetime=st.floats(0, 1e9),
        failed=st.booleans(),
    ),
    SrvQuery: st.builds(
        SrvAnswer,
        records=st.lists(
            st.builds(
                SrvRecord,
                priority=st.integers(0, 65_535),
                weight=st.integers(0, 65_535),
                port=st.integers(-1, 70_000),
                target=st.text() | st.sampled_from([".", "c.test.", "d.test", "1.2.3.4", "a.test."]),
            ),
            max_size=MAX_RECORDS + 5,
        ).map(tuple),
        lifetime=st.floats(0, 1e9),
        failed=st.booleans(),
    ),
}


@given(name=st.text() | st.from_regex(r"[a-z0-9.\-\[\]:]{1,20}", fullmatch=True) | st.just("a.test"), data=st.data())
def test_discovery_always_ends(name: str, data: st.DataObject) -> None:
    """Whatever the answers: after three queries, with candidates or a failure."""
    conversation = discover(name, DRAWS)
    asked = 0
    try:
        question = next(conversation)
        while True:
            asked += 1
            assert asked <= 3
            question = conversation.send(data.draw(ANY_ANSWER[type(question)]))
    except StopIteration as end:
        route = end.value
    assert route.lifetime <= MAX_LIFETIME or isinstance(route, NoRoute)
    if isinstance(route, Route):
        assert 1 <= len(route.candidates) <= MAX_CANDIDATES
        assert all(0 < one.port <= 65_535 and one.host for one in route.candidates)
        assert route.certificate_name
        assert "[" not in route.certificate_name
