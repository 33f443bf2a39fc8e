"""Fetching and caching keys, with real servers and a real database."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import KeyNeed, LocalKeys, key_from_seed, rotate
from federation.matrix.canonical_json import decode
from federation.matrix.errors import PeerError
from federation.matrix.signatures import VerifyKey
from federation.observer import Outcome
from storage.database import Database
from storage.federation.server_keys import fetch_keys
from tests.support.key_server import KeyServer, key_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood
from tests.support.server_keys import DAY, NOW, key, key_document, old_key, public

FIRST, SECOND = key("1"), key("2")


class CountingObserver:
    def __init__(self) -> None:
        self.fetches: list[tuple[str, Outcome]] = []

    def keys_fetched(self, source: str, outcome: Outcome) -> None:
        self.fetches.append((source, outcome))


class Rings:
    """Makes key rings on one database, with a clock that the test controls."""

    def __init__(self, neighbourhood: Neighbourhood, database: Database) -> None:
        self.neighbourhood = neighbourhood
        self.database = database
        self.now_ms = NOW
        self.counted = CountingObserver()
        self.own = OWN_KEYS

    def __call__(self, *notaries: str, may_contact: Callable[[str], bool] = lambda _: True) -> KeyRing:
        reach = self.neighbourhood.reach(may_contact=may_contact)
        ring = KeyRing(
            OWN_NAME,
            lambda: self.own,
            reach.client,
            self.database,
            now_ms=lambda: self.now_ms,
            notaries=notaries,
            observer=self.counted,
            clock=self.neighbourhood.clock,
        )
        self.neighbourhood.stack.push_async_callback(ring.close)
        return ring


@pytest.fixture
def rings(neighbourhood: Neighbourhood, database: Database) -> Rings:
    return Rings(neighbourhood, database)


async def server(rings: Rings, host: str = "a.test", one: Any = FIRST) -> KeyServer:
    return await key_server(rings.neighbourhood, host, one)


async def test_a_key_is_fetched_once(rings: Rings) -> None:
    """It is cached in memory, and stored for the next process."""
    a = await server(rings)
    ring = rings()
    expected = {a.name: {"ed25519:1": VerifyKey(public(FIRST), NOW + DAY)}}
    for _ in range(3):
        assert await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == expected
    assert await rings().keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == expected
    assert a.asked == 1
    assert rings.counted.fetches == [("direct", Outcome.ANSWERED)]
    assert "Authorization" not in a.server.requests[0].headers


async def test_keys_of_several_servers_are_fetched_concurrently(rings: Rings) -> None:
    """For a batch of events; a server without keys does not affect the others."""
    servers = [await server(rings, f"s{at}.test") for at in range(8)]
    servers[3].status = 500
    keys = await rings().keys_for([KeyNeed(one.name, "ed25519:1", NOW) for one in servers])
    assert {name for name, found in keys.items() if found} == {one.name for one in servers} - {servers[3].name}
    assert keys[servers[3].name] == {}


async def test_concurrent_needs_share_one_fetch(rings: Rings) -> None:
    """Two hundred events of one server, checked concurrently."""
    a = await server(rings)
    ring = rings()
    found = await asyncio.gather(*(ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) for _ in range(200)))
    assert all(one[a.name] for one in found)
    assert a.asked == 1


async def test_a_need_that_a_shared_fetch_did_not_satisfy_fetches_again(rings: Rings) -> None:
    """The server may be rotating its key."""
    a = await server(rings)
    came, release = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        came.set()
        await release.wait()
        return await a.handle(request)

    a.server.handler = slow
    ring = rings()
    first = asyncio.create_task(ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))
    await came.wait()
    second = asyncio.create_task(ring.keys_for([KeyNeed(a.name, "ed25519:2", NOW)]))

    async def rotated(request: web.Request) -> web.StreamResponse:
        a.answer = key_document(a.name, FIRST, SECOND)
        return await a.handle(request)

    while not a.asked:  # the first request is being answered by `slow`
        await asyncio.sleep(0)
    a.server.handler = rotated
    release.set()
    assert set((await first)[a.name]) == {"ed25519:1"}
    assert set((await second)[a.name]) == {"ed25519:1", "ed25519:2"}
    assert a.asked == 2


async def test_a_rotation_is_noticed_at_once(rings: Rings) -> None:
    """An unknown key id is fetched; the old key still verifies its events."""
    a = await server(rings)
    ring = rings()
    await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)])
    a.answer = key_document(a.name, SECOND, old=old_key(FIRST, NOW + 5))
    keys = await ring.keys_for([KeyNeed(a.name, "ed25519:2", NOW + 10)])
    assert keys[a.name] == {
        "ed25519:1": VerifyKey(public(FIRST), NOW + 5),
        "ed25519:2": VerifyKey(public(SECOND), NOW + DAY),
    }
    assert await ring.request_keys(a.name, ["ed25519:1", "ed25519:2"]) == {
        "ed25519:2": VerifyKey(public(SECOND), NOW + DAY)
    }
    assert a.asked == 2


async def test_an_expired_key_is_fetched_again(rings: Rings) -> None:
    """For a request at once; never for an event of the time when it was valid."""
    a = await server(rings)
    ring = rings()
    assert await ring.request_keys(a.name, ["ed25519:1"])
    rings.now_ms = NOW + DAY + 1
    await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW), KeyNeed(a.name, "ed25519:1")])
    assert a.asked == 1
    assert await ring.request_keys(a.name, ["ed25519:1"]) == {}
    assert a.asked == 2
    a.answer = key_document(a.name, FIRST, until=NOW + 2 * DAY)
    rings.neighbourhood.clock.now += 60
    assert await ring.request_keys(a.name, ["ed25519:1"])


async def test_requests_for_invented_key_ids_are_limited(rings: Rings) -> None:
    """Any server can write any key id; the named server is requested less and less often."""
    a = await server(rings)
    ring = rings()
    for at in range(100):
        assert await ring.request_keys(a.name, [f"ed25519:junk{at}"]) == {}
        rings.neighbourhood.clock.now += 1
    assert a.asked <= 8
    rings.neighbourhood.clock.now += 60
    a.answer = key_document(a.name, FIRST, SECOND)
    assert await ring.request_keys(a.name, ["ed25519:2"])


async def test_an_offline_server_is_retried_after_a_backoff(rings: Rings) -> None:
    a = await server(rings)
    good, a.answer = a.answer, b"<html>"
    ring = rings()
    for _ in range(5):
        assert await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == {a.name: {}}
    assert a.asked == 1
    rings.neighbourhood.clock.now += 60
    a.answer = good
    assert (await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))[a.name]
    assert rings.counted.fetches == [("direct", Outcome.MALFORMED), ("direct", Outcome.ANSWERED)]


@pytest.mark.parametrize("spurious", ["other key", "other server", "unsigned", "nothing", "list"])
async def test_a_wrong_key_does_not_replace_a_valid_one(rings: Rings, spurious: str) -> None:
    """The stored key counts until it expires."""
    a = await server(rings)
    ring = rings()
    before = await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)])
    a.answer = {
        "other key": key_document(a.name, key("1", "other"), until=NOW + 2 * DAY),
        "other server": key_document("b.test", FIRST),
        "unsigned": key_document(a.name, FIRST, signers=[]),
        "nothing": {},
        "list": [],
    }[spurious]
    assert await ring.keys_for([KeyNeed(a.name, "ed25519:new", NOW)]) == before
    assert a.asked == 2
    assert await rings().keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == before


async def test_malicious_responses_have_no_keys(rings: Rings) -> None:
    """Too large, too deep, or with wrong types."""
    a = await server(rings)
    ring = rings()
    deep = b'{"a":' * 50_000 + b"1" + b"}" * 50_000
    for answer in (b"x" * 2_000_000, deep, b"", b'{"server_name": NaN}', {"server_name": a.name, "verify_keys": 5}):
        a.answer = answer
        assert await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == {a.name: {}}
        rings.neighbourhood.clock.now += 60
    assert a.asked == 5


async def test_local_keys_need_no_fetch(rings: Rings) -> None:
    """A rotation takes effect at once."""
    ring = rings()
    current = OWN_KEYS.current
    keys = (await ring.keys_for([KeyNeed(OWN_NAME, current.key_id, NOW)]))[OWN_NAME]
    assert keys[current.key_id].public == public(current)
    assert keys[current.key_id].is_valid_at(NOW + DAY, NOW)
    rings.own = rotate(LocalKeys(current), key_from_seed("next", b"n" * 32), NOW)
    keys = (await ring.keys_for([KeyNeed(OWN_NAME, current.key_id, NOW)]))[OWN_NAME]
    assert keys[current.key_id].valid_until_ts == NOW
    assert "ed25519:next" in keys
    assert await ring.request_keys(OWN_NAME, ["ed25519:next"]) == {}


async def test_an_invalid_server_name_is_not_requested(rings: Rings) -> None:
    """An event may have any text as its sender's server."""
    ring = rings()
    names = ["", "a b", "x" * 300, "\ud800", "a.test:0"]
    assert await ring.keys_for([KeyNeed(name, "ed25519:1", NOW) for name in names]) == {name: {} for name in names}


async def test_servers_that_may_not_federate_are_not_requested(rings: Rings) -> None:
    """Closed federation also applies to keys."""
    a = await server(rings)
    ring = rings(may_contact=lambda name: name != a.name)
    assert await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]) == {a.name: {}}
    assert a.server.requests == []
    assert rings.counted.fetches == [("direct", Outcome.NOT_ALLOWED)]


NOTARY_KEY = key("notary")


async def with_notary(rings: Rings) -> tuple[KeyServer, str]:
    """A notary, and the name of a server that is offline."""
    notary = await key_server(rings.neighbourhood, "notary.test", NOTARY_KEY)
    gone = "gone.test:1"
    notary.vouched[gone] = key_document(gone, FIRST)
    return notary, gone


async def test_keys_of_an_offline_server_come_from_a_notary(rings: Rings) -> None:
    """It is queried after the server itself; the stored key has the notary as source."""
    notary, gone = await with_notary(rings)
    a = await server(rings)
    ring = rings(notary.name)
    assert (await ring.keys_for([KeyNeed(gone, "ed25519:1", NOW)]))[gone]
    assert notary.queries == [{"server_keys": {gone: {"ed25519:1": {"minimum_valid_until_ts": NOW}}}}]
    assert notary.asked == 1
    assert rings.counted.fetches == [
        ("direct", Outcome.UNREACHABLE),
        ("notary", Outcome.ANSWERED),
        ("direct", Outcome.ANSWERED),
    ]
    async with rings.database.transaction() as connection:
        [row] = await fetch_keys(connection, [gone])
    assert row.source == notary.name
    assert (await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))[a.name]
    assert len(notary.queries) == 1


async def test_a_notary_must_sign_with_its_own_key(rings: Rings) -> None:
    """A response signed with another key, or about another server, is ignored."""
    notary, gone = await with_notary(rings)
    notary.vouches_with = key("notary", "other")
    ring = rings(notary.name)
    assert await ring.keys_for([KeyNeed(gone, "ed25519:1", NOW)]) == {gone: {}}
    notary.vouches_with = None
    notary.vouched[gone] = key_document("elsewhere.test", FIRST)
    rings.neighbourhood.clock.now += 60
    assert await ring.keys_for([KeyNeed(gone, "ed25519:1", NOW)]) == {gone: {}}
    assert len(notary.queries) == 2


async def test_a_notary_may_rotate_its_key_too(rings: Rings) -> None:
    """Its new key is fetched."""
    notary, gone = await with_notary(rings)
    ring = rings(notary.name)
    await ring.keys_for([KeyNeed(notary.name, NOTARY_KEY.key_id, NOW)])
    new = key("new")
    notary.answer = key_document(notary.name, new, old=old_key(NOTARY_KEY, NOW))
    notary.vouches_with = new
    assert (await ring.keys_for([KeyNeed(gone, "ed25519:1", NOW)]))[gone]
    assert notary.asked == 2


async def test_the_next_notary_is_queried(rings: Rings) -> None:
    """In the order of the configuration, also if a notary is offline or sends a malformed response."""
    notary, gone = await with_notary(rings)
    ignorant = await key_server(rings.neighbourhood, "ignorant.test", key("ignorant"))
    broken = await server(rings, "broken.test")

    async def nonsense(_: web.Request) -> web.Response:
        return web.json_response({"server_keys": "none"})

    broken.server.handler = nonsense
    behind = await key_server(rings.neighbourhood, "behind.test", key("behind"))
    behind.vouched[gone] = key_document(gone, SECOND)
    unasked = await key_server(rings.neighbourhood, "unasked.test", key("unasked"))
    ring = rings("dead.test:1", broken.name, ignorant.name, behind.name, notary.name, unasked.name)
    assert set((await ring.keys_for([KeyNeed(gone, "ed25519:1", NOW)]))[gone]) == {"ed25519:1", "ed25519:2"}
    assert len(ignorant.queries) == len(behind.queries) == len(notary.queries) == 1
    assert unasked.queries == []


async def test_the_keys_of_an_offline_notary_are_not_queried_from_others(rings: Rings) -> None:
    """Its keys come only from itself."""
    ring = rings("dead.test:1")
    needs = [KeyNeed("gone.test:1", "ed25519:1", NOW), KeyNeed("dead.test:1", "ed25519:1", NOW)]
    assert await ring.keys_for(needs) == {"gone.test:1": {}, "dead.test:1": {}}


async def test_documents_are_stored_for_notary_queries(rings: Rings) -> None:
    """As the server has signed them. For unknown keys there is none, and no fetch."""
    a = await server(rings)
    ring = rings()
    await ring.refresh(a.name)
    [document] = await ring.documents(a.name, ["ed25519:1", "ed25519:unknown"])
    assert decode(document) == a.answer
    assert await ring.documents(a.name, ["ed25519:unknown"]) == []
    assert await ring.documents("gone.test:1", ["ed25519:1"]) == []
    assert a.asked == 1


async def test_refreshing_the_keys_of_a_server(rings: Rings) -> None:
    """Although no key is missing. Concurrent refreshes share one request."""
    a = await server(rings)
    ring = rings()
    await ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)])
    a.answer = key_document(a.name, FIRST, SECOND)
    await asyncio.gather(*(ring.refresh(a.name) for _ in range(5)))
    assert a.asked == 2
    assert set(await rings().stored(a.name)) == {"ed25519:1", "ed25519:2"}
    assert await ring.stored("gone.test:1") == {}
    a.status = 500
    with pytest.raises(PeerError):
        await ring.refresh(a.name)


async def test_a_need_after_a_failed_refresh_queries_the_notary(rings: Rings) -> None:
    """A refresh itself does not query notaries."""
    a, notary = await server(rings), await server(rings, "notary.test", SECOND)
    notary.vouched = {a.name: a.answer}
    came, release = asyncio.Event(), asyncio.Event()

    async def failing(request: web.Request) -> web.StreamResponse:
        came.set()
        await release.wait()
        return web.Response(status=500)

    a.server.handler = failing
    ring = rings(notary.name)
    refreshing = asyncio.create_task(ring.refresh(a.name))
    await came.wait()
    needing = asyncio.create_task(ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))
    fetch: Any = ring._fetching._tasks[a.name]
    waiting = len(fetch._callbacks)
    while len(fetch._callbacks) == waiting:
        await asyncio.sleep(0)
    release.set()
    with pytest.raises(PeerError):
        await refreshing
    assert set((await needing)[a.name]) == {"ed25519:1"}


async def test_two_processes_share_fetched_keys(rings: Rings) -> None:
    """A key stored by one is found by the other, which has cached older keys of the server."""
    a = await server(rings)
    one, other = rings(), rings()
    await one.keys_for([KeyNeed(a.name, "ed25519:1", NOW)])
    await other.keys_for([KeyNeed(a.name, "ed25519:1", NOW)])
    a.answer = key_document(a.name, FIRST, SECOND)
    await one.keys_for([KeyNeed(a.name, "ed25519:2", NOW)])
    a.status = 500
    assert "ed25519:2" in (await other.keys_for([KeyNeed(a.name, "ed25519:2", NOW)]))[a.name]
    assert a.asked == 2


async def test_a_cancelled_caller_does_not_cancel_the_fetch(rings: Rings) -> None:
    """The peer whose request needed the key may have disconnected; the next one needs it too."""
    a = await server(rings)
    came, release = asyncio.Event(), asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse:
        came.set()
        await release.wait()
        return await a.handle(request)

    a.server.handler = slow
    ring = rings()
    first = asyncio.create_task(ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))
    await came.wait()
    second = asyncio.create_task(ring.keys_for([KeyNeed(a.name, "ed25519:1", NOW)]))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    release.set()
    assert (await second)[a.name]
    assert a.asked == 1
