"""Requests for keys to servers and notaries, and their metrics."""

import pytest

from federation.client.errors import PeerMalformed, PeerUnreachable
from federation.keys.key_fetch import KeyFetcher
from federation.keys.server_keys import KeyNeed
from federation.matrix.errors import PeerError
from federation.matrix.signatures import VerifyKey
from federation.observer import Outcome
from tests.support.key_server import KeyServer, key_server
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.server_keys import DAY, NOW, key, key_document, public

FIRST, NOTARY_KEY = key("1"), key("notary")


class CountingObserver:
    def __init__(self) -> None:
        self.fetches: list[tuple[str, Outcome]] = []

    def keys_fetched(self, source: str, outcome: Outcome) -> None:
        self.fetches.append((source, outcome))


async def fetcher(neighbourhood: Neighbourhood) -> tuple[KeyServer, KeyFetcher, CountingObserver]:
    server = await key_server(neighbourhood, "a.test", FIRST)
    counted = CountingObserver()
    return server, KeyFetcher(neighbourhood.reach().client, lambda: NOW, counted), counted


async def test_fetching_from_a_server(neighbourhood: Neighbourhood) -> None:
    """An invalid document is an error of the server."""
    server, fetch, counted = await fetcher(neighbourhood)
    document = await fetch.from_server(server.name)
    assert [one.key_id for one in document.keys] == ["ed25519:1"]
    server.answer = key_document("b.test", FIRST)
    with pytest.raises(PeerMalformed, match="belongs to another server"):
        await fetch.from_server(server.name)
    with pytest.raises(PeerUnreachable):
        await fetch.from_server("nowhere.test:1")
    assert counted.fetches == [
        ("direct", Outcome.ANSWERED),
        ("direct", Outcome.MALFORMED),
        ("direct", Outcome.UNREACHABLE),
    ]


async def test_fetching_from_a_notary(neighbourhood: Neighbourhood) -> None:
    """For several servers; documents that were not requested are ignored."""
    server, fetch, counted = await fetcher(neighbourhood)
    server.key = NOTARY_KEY
    server.vouched = {"x.test": key_document("x.test", FIRST), "y.test": key_document("z.test", FIRST)}
    needs = {
        "x.test": [KeyNeed("x.test", "ed25519:1", 5), KeyNeed("x.test", "ed25519:2", 6)],
        "y.test": [KeyNeed("y.test", "ed25519:3", 7)],
    }
    asked = []

    async def keys_of_notary(key_ids: object) -> dict[str, VerifyKey]:
        asked.append(key_ids)
        return {NOTARY_KEY.key_id: VerifyKey(public(NOTARY_KEY), NOW + DAY)}

    found = await fetch.from_notary(server.name, needs, keys_of_notary)
    assert [[one.server for one in document.keys] for document in found["x.test"]] == [["x.test"]]
    assert found["y.test"] == []
    assert asked == [[NOTARY_KEY.key_id]]
    assert server.queries == [
        {
            "server_keys": {
                "x.test": {"ed25519:1": {"minimum_valid_until_ts": 5}, "ed25519:2": {"minimum_valid_until_ts": 6}},
                "y.test": {"ed25519:3": {"minimum_valid_until_ts": 7}},
            }
        }
    ]
    assert counted.fetches == [("notary", Outcome.ANSWERED)]


@pytest.mark.parametrize("answer", [b"{}", b'{"server_keys": {}}', b"[]"])
async def test_a_malformed_response_of_a_notary(neighbourhood: Neighbourhood, answer: bytes) -> None:
    """Is an error of the notary."""
    server, fetch, counted = await fetcher(neighbourhood)

    async def keys_of_notary(_: object) -> dict[str, VerifyKey]:
        return {}

    server.server.handler = answering(answer)
    with pytest.raises(PeerError):
        await fetch.from_notary(server.name, {"x.test": []}, keys_of_notary)
    assert counted.fetches == [("notary", Outcome.MALFORMED)]
    strange = b'{"server_keys": [null, 5, {}, {"server_name": 7}, {"server_name": "x.test", "signatures": 5}]}'
    server.server.handler = answering(strange)
    assert await fetch.from_notary(server.name, {"x.test": []}, keys_of_notary) == {"x.test": []}
