"""The notary, with real servers and a real database."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from federation.keys.key_documents import KeyDocument, parse_key_document
from federation.keys.key_documents import NotaryKeys as Vouching
from federation.keys.key_ring import KeyRing
from federation.keys.notary import MAX_CONCURRENT_FETCHES, Notary
from federation.keys.server_keys import KeyNeed, LocalKey
from federation.matrix.errors import MatrixError
from federation.matrix.signatures import VerifyKey
from storage.database import Database
from tests.support.key_server import KeyServer, key_server
from tests.support.neighbourhood import OWN_KEYS, OWN_NAME, Neighbourhood
from tests.support.server_keys import DAY, NOW, key, key_document, old_key, public

FIRST, SECOND = key("1"), key("2")
US = Vouching(OWN_NAME, {OWN_KEYS.current.key_id: VerifyKey(bytes(OWN_KEYS.current.signing_key.verify_key), NOW)})


class NotaryClient:
    """A notary with a clock that the test controls. Its responses are verified like by a client."""

    def __init__(self, neighbourhood: Neighbourhood, database: Database) -> None:
        self.neighbourhood = neighbourhood
        self.database = database
        self.now_ms = NOW

    def ring(self, *notaries: str) -> KeyRing:
        ring = KeyRing(
            OWN_NAME,
            lambda: OWN_KEYS,
            self.neighbourhood.reach().client,
            self.database,
            now_ms=lambda: self.now_ms,
            notaries=notaries,
            clock=self.neighbourhood.clock,
        )
        self.neighbourhood.stack.push_async_callback(ring.close)
        return ring

    def notary(
        self, *notaries: str, may_contact: Callable[[str], bool] = lambda _: True, timeout: float = 30
    ) -> Notary:
        notary = Notary(
            OWN_NAME,
            self.ring(*notaries),
            lambda: OWN_KEYS,
            now_ms=lambda: self.now_ms,
            may_contact=may_contact,
            timeout=timeout,
            clock=self.neighbourhood.clock,
        )
        self.neighbourhood.stack.push_async_callback(notary.close)
        return notary

    def keys_in(self, answer: bytes) -> dict[str, set[str]]:
        """The keys in a response, by server."""
        found: dict[str, set[str]] = {}
        for document in json.loads(answer)["server_keys"]:
            name = document["server_name"]
            believed = parse_key_document(document, name, self.now_ms, US)
            assert isinstance(believed, KeyDocument), believed
            found.setdefault(name, set()).update(one.key_id for one in believed.keys)
        return found


@pytest.fixture
def client(neighbourhood: Neighbourhood, database: Database) -> NotaryClient:
    return NotaryClient(neighbourhood, database)


async def server(client: NotaryClient, host: str = "a.test", one: LocalKey = FIRST) -> KeyServer:
    return await key_server(client.neighbourhood, host, one)


async def test_keys_are_fetched_once_and_signed_by_both(client: NotaryClient) -> None:
    """ "The receiving (notary) server must sign the keys returned by the queried server." """
    a = await server(client)
    notary = client.notary()
    for _ in range(3):
        answer = await notary.query_server(a.name, None)
        assert client.keys_in(answer) == {a.name: {"ed25519:1"}}
        [document] = json.loads(answer)["server_keys"]
        assert document["signatures"][a.name] == a.answer["signatures"][a.name]
    assert client.keys_in(await client.notary().query_servers({"server_keys": {a.name: {}}})) == {a.name: {"ed25519:1"}}
    assert a.asked == 1


async def test_a_query_for_several_servers(client: NotaryClient) -> None:
    """ "Servers which are offline and have no cached keys will not be included in the result." """
    a, b = await server(client), await server(client, "b.test", SECOND)
    b.answer = key_document(b.name, SECOND, old=old_key(FIRST, NOW - 5))
    question = {"server_keys": {a.name: {"ed25519:1": {}}, b.name: {}, "gone.test:1": {}, OWN_NAME: {}}}
    answer = await client.notary().query_servers(question)
    assert client.keys_in(answer) == {
        a.name: {"ed25519:1"},
        b.name: {"ed25519:1", "ed25519:2"},
        OWN_NAME: {OWN_KEYS.current.key_id},
    }


async def test_an_unreachable_server_has_an_empty_list(client: NotaryClient) -> None:
    """ "an empty array if the server could not be reached and no cached keys were available" """
    notary = client.notary()
    assert json.loads(await notary.query_server("gone.test:1", None)) == {"server_keys": []}
    assert json.loads(await notary.query_servers({"server_keys": {}})) == {"server_keys": []}


async def test_stored_keys_of_an_offline_server_are_returned(client: NotaryClient) -> None:
    """However old they are: the client sees their validity."""
    a = await server(client)
    notary = client.notary()
    await notary.query_server(a.name, None)
    a.status = 500
    client.now_ms = NOW + 30 * DAY
    [document] = json.loads(await notary.query_server(a.name, None))["server_keys"]
    assert document["valid_until_ts"] == NOW + DAY


async def test_keys_that_must_be_valid_for_longer_are_fetched_again(client: NotaryClient) -> None:
    """`minimum_valid_until_ts`; and after half of its lifetime a document is stale anyway."""
    a = await server(client)
    notary = client.notary()
    await notary.query_server(a.name, str(NOW + DAY))
    assert a.asked == 1
    a.answer = key_document(a.name, FIRST, until=NOW + 2 * DAY)
    answer = await notary.query_server(a.name, str(NOW + DAY + 1))
    assert json.loads(answer)["server_keys"][0]["valid_until_ts"] == NOW + 2 * DAY
    assert a.asked == 2
    client.now_ms = NOW + DAY
    await notary.query_server(a.name, None)
    assert a.asked == 2
    client.now_ms += 1
    a.answer = key_document(a.name, FIRST, until=NOW + 3 * DAY)
    answer = await notary.query_servers({"server_keys": {a.name: {"ed25519:1": {}}}})
    assert json.loads(answer)["server_keys"][0]["valid_until_ts"] == NOW + 3 * DAY
    assert a.asked == 3


async def test_an_unknown_key_is_fetched(client: NotaryClient) -> None:
    """The server may have a new key."""
    a = await server(client)
    notary = client.notary()
    await notary.query_server(a.name, None)
    a.answer = key_document(a.name, FIRST, SECOND)
    answer = await notary.query_servers({"server_keys": {a.name: {"ed25519:2": {}}}})
    assert client.keys_in(answer) == {a.name: {"ed25519:1", "ed25519:2"}}


@pytest.mark.parametrize(
    "spurious",
    [
        lambda name: key_document(name, key("1", "other"), until=NOW + 5 * DAY),
        lambda name: key_document("b.test", FIRST),
        lambda name: key_document(name, FIRST, signers=[SECOND]),
        lambda name: {"server_name": name, "verify_keys": {}, "valid_until_ts": NOW + 5 * DAY},
        lambda name: b"no JSON",
        lambda name: [],
    ],
)
async def test_a_wrong_response_does_not_replace_a_valid_key(
    client: NotaryClient, spurious: Callable[[str], Any]
) -> None:
    """Of an attacker in place of the server, or of a broken server."""
    a = await server(client)
    notary = client.notary()
    before = await notary.query_server(a.name, None)
    a.answer = spurious(a.name)
    after = await notary.query_server(a.name, str(NOW + 2 * DAY))
    assert a.asked == 2
    assert json.loads(after) == json.loads(before)
    assert (await client.ring().stored(a.name))["ed25519:1"].public == public(FIRST)


async def test_a_server_without_newer_keys_is_not_requested_again(client: NotaryClient) -> None:
    """Clients cannot make this node send many requests to it, and this node's own fetches are not delayed."""
    a = await server(client)
    notary = client.notary()
    for number in range(20):
        await notary.query_servers({"server_keys": {a.name: {f"ed25519:{number}x": {}}}})
        await notary.query_server(a.name, str(NOW + 100 * DAY))
    assert a.asked == 1
    keys = await notary._key_ring.keys_for([KeyNeed(a.name, "ed25519:2", NOW)])
    assert (a.asked, set(keys[a.name])) == (2, {"ed25519:1"})
    client.neighbourhood.clock.now += 1
    await notary.query_server(a.name, str(NOW + 100 * DAY))
    assert a.asked == 3


async def test_only_permitted_servers_are_returned(client: NotaryClient) -> None:
    """With closed federation other servers have no keys, even if they are stored."""
    a, b = await server(client), await server(client, "b.test")
    await client.notary().query_server(a.name, None)
    notary = client.notary(may_contact=lambda name: name == b.name)
    answer = await notary.query_servers({"server_keys": {a.name: {}, b.name: {}}})
    assert set(client.keys_in(answer)) == {b.name}
    assert a.asked == 1


async def test_other_notaries_are_not_queried(client: NotaryClient) -> None:
    """Two notaries that query each other would never end."""
    other = await server(client, "notary.test", SECOND)
    other.vouched = {"gone.test:1": key_document("gone.test:1", FIRST)}
    answer = await client.notary(other.name).query_server("gone.test:1", None)
    assert json.loads(answer) == {"server_keys": []}
    assert other.queries == []


async def test_the_cost_of_queries_is_limited(client: NotaryClient) -> None:
    """The number of concurrent fetches and the time of waiting are bounded; stored keys are returned at
    once."""
    a = await server(client)
    await client.notary().query_server(a.name, None)
    came: list[str] = []
    all_came = asyncio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        came.append(request.host)
        if len(came) == MAX_CONCURRENT_FETCHES:
            all_came.set()
        await asyncio.Event().wait()
        raise AssertionError

    slow = [
        await client.neighbourhood.server(silent, f"s{number}.test") for number in range(MAX_CONCURRENT_FETCHES + 3)
    ]
    names = [f"s{number}.test:{one.port}" for number, one in enumerate(slow)]
    notary = client.notary(timeout=0.5)
    waiting = asyncio.create_task(notary.query_servers({"server_keys": {name: {} for name in [*names, a.name]}}))
    async with asyncio.timeout(30):
        await all_came.wait()
        # All fetch slots are in use, and this query needs none.
        assert client.keys_in(await notary.query_server(a.name, None)) == {a.name: {"ed25519:1"}}
        assert client.keys_in(await waiting) == {a.name: {"ed25519:1"}}
    assert len(came) == MAX_CONCURRENT_FETCHES


@pytest.mark.parametrize("body", [None, {"server_keys": 5}, {"server_keys": {"a b": {}}}])
async def test_invalid_queries_are_refused(client: NotaryClient, body: object) -> None:
    """With status 400."""
    with pytest.raises(MatrixError, match="400"):
        await client.notary().query_servers(body)
    with pytest.raises(MatrixError, match="400"):
        await client.notary().query_server("a b", None)
