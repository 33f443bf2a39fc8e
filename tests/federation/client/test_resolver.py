"""Server discovery with real name servers and a real web server."""

import asyncio
from ipaddress import ip_network

import pytest
from aiohttp import web

from federation.client.errors import PeerUnreachable
from federation.client.peer_settings import PeerSettings
from federation.client.server_discovery import Candidate, SrvAnswer, SrvQuery, WellKnownAnswer, WellKnownQuery
from federation.client.well_known import MAX_BYTES
from tests.support.loopback_server import LoopbackServer, raw_server
from tests.support.neighbourhood import Neighbourhood, Reach, answering

HOUR = 3600.0


async def delegating(
    neighbourhood: Neighbourhood, to: object = "b.test:7676", **headers: str
) -> tuple[LoopbackServer, Reach]:
    """Let `a.test` have a well-known."""
    server = await neighbourhood.server(answering({"m.server": to}, **headers), "a.test")
    return server, neighbourhood.reach(well_known_port=server.port)


async def test_a_delegation_is_followed(neighbourhood: Neighbourhood) -> None:
    """Step 3.2, over HTTPS with the certificate of the requested host."""
    server, reach = await delegating(neighbourhood)
    route = await reach.resolver.route("a.test")
    assert (route.candidates, route.host_header, route.step) == ((Candidate("b.test", 7676),), "b.test:7676", "3.2")
    [request] = server.requests
    assert (request.raw_path, server.names) == ("/.well-known/matrix/server", ["a.test"])
    assert "Authorization" not in request.headers


async def test_srv_records_are_queried(neighbourhood: Neighbourhood) -> None:
    """Step 4, if there is no well-known."""
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", "10 0 1001 c.test.", "20 0 1002 d.test.")
    route = await neighbourhood.reach().resolver.route("a.test")
    assert route.candidates == (Candidate("c.test", 1001), Candidate("d.test", 1002))
    assert (route.host_header, route.certificate_name, route.step) == ("a.test", "a.test", "4")


async def test_a_route_is_cached_for_its_lifetime(neighbourhood: Neighbourhood) -> None:
    """And discovered again after that."""
    server, reach = await delegating(neighbourhood, Cache_Control="max-age=7200")
    await reach.resolver.route("a.test")
    neighbourhood.clock.now += 2 * HOUR - 1
    await reach.resolver.route("a.test")
    assert len(server.requests) == 1
    neighbourhood.clock.now += 1
    await reach.resolver.route("a.test")
    assert len(server.requests) == 2


async def test_a_trace_has_all_queries(neighbourhood: Neighbourhood) -> None:
    """With their answers; the result is cached."""
    server, reach = await delegating(neighbourhood, to="b.test")
    neighbourhood.names.add("_matrix-fed._tcp.b.test", "SRV", "10 0 1001 c.test.")
    before = await reach.resolver.route("a.test")
    neighbourhood.names.add("_matrix-fed._tcp.b.test", "SRV", "10 0 1002 c.test.")
    explained = await reach.resolver.trace("a.test")
    assert [question for question, _ in explained.queries] == [
        WellKnownQuery("a.test"),
        SrvQuery("_matrix-fed._tcp.b.test"),
    ]
    (_, delegation), (_, records) = explained.queries
    assert isinstance(delegation, WellKnownAnswer)
    assert delegation.delegated == "b.test"
    assert isinstance(records, SrvAnswer)
    assert [record.port for record in records.records] == [1002]
    assert explained.route != before
    assert await reach.resolver.route("a.test") == explained.route
    assert len(server.requests) == 2


async def test_a_trace_explains_a_missing_delegation(neighbourhood: Neighbourhood) -> None:
    """With the problem of the response."""
    reach = neighbourhood.reach()
    assert await _problem(reach, "nowhere.test") == "could not be resolved to an address"
    server = await neighbourhood.server(answering(b"", 302, Location="http://a.test/"), "a.test")
    reach = neighbourhood.reach(well_known_port=server.port)
    assert await _problem(reach, "a.test") == "redirects in a loop, or not to https"
    # A provisional result is not cached.
    before = await reach.resolver.route("b.test")
    explained = await reach.resolver.trace("b.test")
    assert before.provisional
    assert explained.route.provisional
    assert await reach.resolver.route("b.test") is before


async def _problem(reach: Reach, name: str) -> str:
    [(_, answer), *_] = (await reach.resolver.trace(name)).queries
    assert isinstance(answer, WellKnownAnswer)
    return answer.problem


async def test_a_route_is_invalidated(neighbourhood: Neighbourhood) -> None:
    """So that a server that has moved is found before its lifetime ends."""
    server, reach = await delegating(neighbourhood)
    await reach.resolver.route("a.test")
    reach.resolver.invalidate("a.test")
    reach.resolver.invalidate("b.test")
    await reach.resolver.route("a.test")
    assert len(server.requests) == 2


async def test_concurrent_discoveries_share_the_queries(neighbourhood: Neighbourhood) -> None:
    """A room with fifty users of one server needs one discovery."""
    server, reach = await delegating(neighbourhood)
    routes = await asyncio.gather(*(reach.resolver.route("a.test") for _ in range(50)))
    assert len(set(routes)) == 1
    assert len(server.requests) == 1


async def test_redirects_are_followed_a_few_times(neighbourhood: Neighbourhood) -> None:
    """ "30x redirects should be followed, however redirection loops should be avoided." """

    async def redirect(request: web.Request) -> web.Response:
        left = int(request.query.get("left", "3"))
        if left:
            return web.Response(status=302, headers={"Location": f"{request.path}?left={left - 1}"})
        return web.json_response({"m.server": "b.test:7676"})

    server = await neighbourhood.server(redirect, "a.test")
    reach = neighbourhood.reach(well_known_port=server.port)
    assert (await reach.resolver.route("a.test")).step == "3.2"

    async def loop(request: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": str(request.url)})

    server.handler = loop
    server.requests.clear()
    neighbourhood.clock.now += 100 * HOUR
    assert (await reach.resolver.route("a.test")).step == "6"
    assert len(server.requests) == 6


async def test_redirects_must_be_https(neighbourhood: Neighbourhood) -> None:
    """Otherwise anyone on the network path could write the response."""
    plain = await neighbourhood.server(answering({"m.server": "evil.test:1"}), "p.test", plain=True)
    location = f"http://p.test:{plain.port}/.well-known/matrix/server"
    server = await neighbourhood.server(answering(b"", 302, Location=location), "a.test")
    reach = neighbourhood.reach(well_known_port=server.port)
    assert (await reach.resolver.route("a.test")).step == "6"
    assert plain.requests == []


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"m.server": "b.test:1"}, 404),
        ({"m.server": "b.test:1"}, 500),
        ({"m.server": 1}, 200),
        (b'{"m.server": "b.test:1", "x": "' + b"x" * MAX_BYTES + b'"}', 200),
        (b"[" * MAX_BYTES, 200),
        (b"", 200),
        (b"\xff\xfe", 200),
    ],
)
async def test_an_invalid_response_is_no_delegation(neighbourhood: Neighbourhood, content: object, status: int) -> None:
    """ "If the response is invalid (bad JSON, missing properties, non-200 response, etc)": step 4."""
    server = await neighbourhood.server(answering(content, status), "a.test")
    route = await neighbourhood.reach(well_known_port=server.port).resolver.route("a.test")
    assert route.step == "6"


async def test_a_well_known_needs_a_valid_certificate(neighbourhood: Neighbourhood) -> None:
    """Neither another name's nor an untrusted one is accepted."""
    for files in (
        neighbourhood.certificates.make("other.test"),
        neighbourhood.certificates.make("a.test", trusted=False),
    ):
        server = await neighbourhood.server(answering({"m.server": "b.test:1"}), "a.test", files=files)
        assert (await neighbourhood.reach(well_known_port=server.port).resolver.route("a.test")).step == "6"
        assert server.requests == []


async def test_a_response_that_is_not_http_is_no_delegation(neighbourhood: Neighbourhood) -> None:
    """Whatever it is."""

    async def nonsense(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.a.test ESMTP\r\n")

    neighbourhood.names.add("a.test", "A", "127.0.0.1")
    files = neighbourhood.certificates.make("a.test")
    port = await neighbourhood.stack.enter_async_context(raw_server(nonsense, files))
    assert (await neighbourhood.reach(well_known_port=port).resolver.route("a.test")).step == "6"


async def test_repeated_failures_are_cached_longer(neighbourhood: Neighbourhood) -> None:
    """5 minutes, 10, 20, up to an hour; a valid response starts over."""
    server = await neighbourhood.server(answering({}, 500), "a.test")
    reach = neighbourhood.reach(well_known_port=server.port)
    lifetimes = []
    for _ in range(6):
        route = await reach.resolver.route("a.test")
        lifetimes.append(route.lifetime)
        neighbourhood.clock.now += route.lifetime
    assert lifetimes == [300.0, 600.0, 1200.0, 2400.0, 3600.0, 3600.0]
    server.handler = answering({"m.server": "b.test:1"})
    assert (await reach.resolver.route("a.test")).step == "3.2"


async def test_a_certain_route_outlives_a_failure(neighbourhood: Neighbourhood) -> None:
    """A delegation that cannot be fetched temporarily stays valid, for up to two days."""
    server, reach = await delegating(neighbourhood, Cache_Control="max-age=3600")
    await reach.resolver.route("a.test")
    server.handler = answering({}, 503)
    neighbourhood.clock.now += HOUR
    assert (await reach.resolver.route("a.test")).step == "3.2"
    assert len(server.requests) == 2
    await reach.resolver.route("a.test")
    assert len(server.requests) == 2
    neighbourhood.clock.now += 47 * HOUR
    assert (await reach.resolver.route("a.test")).step == "6"


async def test_the_route_of_an_unreachable_server_expires_early(neighbourhood: Neighbourhood) -> None:
    """But not at once, and not more often."""
    server, reach = await delegating(neighbourhood)
    await reach.resolver.route("a.test")
    server.handler = answering({"m.server": "new.test:1"})
    reach.resolver.mark_unreachable("a.test")
    assert (await reach.resolver.route("a.test")).candidates == (Candidate("b.test", 7676),)
    neighbourhood.clock.now += 60
    assert (await reach.resolver.route("a.test")).candidates == (Candidate("new.test", 1),)
    reach.resolver.mark_unreachable("never.asked.test")


async def test_a_configured_address_needs_no_queries(neighbourhood: Neighbourhood) -> None:
    """No server is asked about it."""
    server, _ = await delegating(neighbourhood)
    reach = neighbourhood.reach(
        {"A.test": PeerSettings(address="127.0.0.1:7676"), "bad.test": PeerSettings(address="a b")},
        well_known_port=server.port,
    )
    route = await reach.resolver.route("a.test")
    assert (route.candidates, route.host_header) == ((Candidate("127.0.0.1", 7676),), "a.test")
    assert server.requests == []
    assert not neighbourhood.names.asked
    with pytest.raises(PeerUnreachable, match="configuration"):
        await reach.resolver.route("bad.test")


async def test_a_missing_route_is_a_peer_error(neighbourhood: Neighbourhood) -> None:
    """With the reason."""
    neighbourhood.names.add("_matrix-fed._tcp.a.test", "SRV", "0 0 0 .")
    reach = neighbourhood.reach()
    with pytest.raises(PeerUnreachable, match="does not federate"):
        await reach.resolver.route("a.test")
    with pytest.raises(PeerUnreachable, match="not a valid server name"):
        await reach.resolver.route("a b")


async def test_a_well_known_at_a_blocked_address_is_not_fetched(neighbourhood: Neighbourhood) -> None:
    """Neither by name nor by a redirect to its number."""
    server, _ = await delegating(neighbourhood)
    reach = neighbourhood.reach(well_known_port=server.port, blocked=[ip_network("127.0.0.0/8")])
    assert (await reach.resolver.route("a.test")).step == "6"
    assert server.names == []


async def test_a_silent_well_known_times_out(neighbourhood: Neighbourhood, monkeypatch: pytest.MonkeyPatch) -> None:
    """It costs at most the timeout."""
    monkeypatch.setattr("federation.client.resolver.TIMEOUT", 0.1)

    async def silence(_: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    server = await neighbourhood.server(silence, "a.test")
    assert (await neighbourhood.reach(well_known_port=server.port).resolver.route("a.test")).step == "6"
