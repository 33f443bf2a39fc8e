"""Fetches the keys of servers, from the servers themselves and from notaries.

Server-server API, "Retrieving server keys". These requests are not signed, because the target may not have
this server's keys yet.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from federation.client.client import MIB, FederationClient
from federation.client.errors import PeerMalformed, outcome_of
from federation.client.requests import request_target
from federation.keys.key_documents import KeyDocument, NotaryKeys, parse_key_document
from federation.keys.server_keys import KeyNeed
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import is_key_id
from federation.matrix.signatures import VerifyKey
from federation.observer import HomeserverObserver

# Seconds. A request or a transaction waits for the keys.
TIMEOUT: Final = 10.0
MAX_NOTARY_RESPONSE_BYTES: Final = 10 * MIB
MAX_NOTARY_KEYS: Final = 4

FetchNotaryKeys = Callable[[Sequence[str]], Awaitable[Mapping[str, VerifyKey]]]
"""Returns the notary's own keys with these ids, as far as they are available."""

_SERVER: Final = request_target("/_matrix/key/v2/server")
_QUERY: Final = request_target("/_matrix/key/v2/query")


class KeyFetcher:
    def __init__(
        self, client: FederationClient, now_ms: Callable[[], int], observer: HomeserverObserver | None = None
    ) -> None:
        self._client = client
        self._now_ms = now_ms
        self._observer = observer or HomeserverObserver()

    async def from_server(self, server_name: str) -> KeyDocument:
        """Fetch the key document from the server itself. Raises `PeerError`."""
        with _ObservedFetch("direct", self._observer):
            response = await self._client.request("GET", server_name, _SERVER, timeout=TIMEOUT, signed=False)
            document = parse_key_document(response, server_name, self._now_ms())
            if not isinstance(document, KeyDocument):
                raise PeerMalformed(server_name, f"publishes a key document that {document.problem}")
            return document

    async def from_notary(
        self, notary: str, needs: Mapping[str, Sequence[KeyNeed]], keys_of_notary: FetchNotaryKeys
    ) -> dict[str, list[KeyDocument]]:
        """Fetch the key documents of these servers from a notary, which may not have all. Raises `PeerError`.

        "Servers which are offline and have no cached keys will not be included in the result."
        """
        with _ObservedFetch("notary", self._observer):
            query = {"server_keys": {server: _criteria(wanted) for server, wanted in needs.items()}}
            response = await self._client.request(
                "POST", notary, _QUERY, query, timeout=TIMEOUT, limit=MAX_NOTARY_RESPONSE_BYTES, signed=False
            )
            received = response.get("server_keys")
            if not isinstance(received, list):
                raise PeerMalformed(notary, "responded to a key query without server_keys")
        # Documents that were not requested are ignored: checking them would cost time.
        requested = [entry for entry in received if isinstance(entry, dict) and _name(entry) in needs]
        notary_keys = NotaryKeys(notary, await keys_of_notary(_signing_keys(requested, notary)))
        found: dict[str, list[KeyDocument]] = {server: [] for server in needs}
        for entry in requested:
            document = parse_key_document(entry, _name(entry), self._now_ms(), notary_keys)
            if isinstance(document, KeyDocument):
                found[_name(entry)].append(document)
        return found


def _name(document: Mapping[str, Any]) -> str:
    name = document.get("server_name")
    return name if isinstance(name, str) else ""


def _signing_keys(documents: Sequence[Mapping[str, Any]], notary: str) -> list[str]:
    """The ids of the keys with which the notary has signed: usually one."""
    key_ids: dict[str, None] = {}
    for document in documents:
        signatures = document.get("signatures")
        made = signatures.get(notary) if isinstance(signatures, dict) else None
        if isinstance(made, dict):
            key_ids |= dict.fromkeys(made)
    return [key_id for key_id in key_ids if is_key_id(key_id)][:MAX_NOTARY_KEYS]


def _criteria(needs: Sequence[KeyNeed]) -> dict[str, dict[str, int]]:
    return {need.key_id: {"minimum_valid_until_ts": need.valid_at} for need in needs}


class _ObservedFetch:
    """Reports the outcome of a fetch to the observer."""

    def __init__(self, source: str, observer: HomeserverObserver) -> None:
        self._source = source
        self._observer = observer

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None or isinstance(error, PeerError):
            self._observer.keys_fetched(self._source, outcome_of(error))
