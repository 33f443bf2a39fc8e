"""Key queries to a notary, and their responses. Server-server API, "Querying Keys Through Another Server"."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.keys.key_documents import ServerKey
from federation.keys.server_keys import LocalKey, is_known_algorithm
from federation.matrix.canonical_json import decode, encode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_key_id, is_server_name
from federation.matrix.signatures import sign

MAX_SERVERS: Final = 100
MAX_KEYS: Final = 100
"""Maximum number of key ids in a query, for all servers together."""
MAX_RESPONSE_BYTES: Final = 1024 * 1024
"""Maximum size of a response. Servers choose the size of their documents, and any client may request them."""

_LAST_MS: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class KeyQuery:
    """A query for the keys of one server: all its keys if `key_ids` is empty. `valid_until` is the latest
    `minimum_valid_until_ts` of the query."""

    server: str
    key_ids: tuple[str, ...]
    valid_until: int


def parse_single(server: str, minimum: str | None, now_ms: int) -> KeyQuery:
    """`GET /query/{serverName}`: "`minimum_valid_until_ts`: […] when the returned certificates will need to
    be valid until to be useful to the requesting server. If not supplied, the current time as determined by
    the notary server is used." """
    if not is_server_name(server):
        raise MatrixError("M_INVALID_PARAM", "The path does not contain a valid server name.")
    if minimum is None:
        return KeyQuery(server, (), now_ms)
    if not (minimum.isascii() and minimum.isdigit() and len(minimum) <= 16):
        raise MatrixError("M_INVALID_PARAM", "minimum_valid_until_ts is not a time in milliseconds.")
    return KeyQuery(server, (), int(minimum))


def parse_many(body: object, now_ms: int) -> tuple[KeyQuery, ...]:
    """`POST /query`: "The outer `string` key on the object is the server name […]. The inner `string` key is
    the Key ID to query for the particular server. If no key IDs are given to be queried, the notary server
    should query for all keys. If no servers are given, the notary server must return an empty `server_keys`
    array"."""
    queries = body.get("server_keys") if isinstance(body, dict) else None
    if not isinstance(queries, dict):
        raise MatrixError("M_BAD_JSON", "server_keys must be an object of objects by server name.")
    if not all(isinstance(keys, dict) for keys in queries.values()):
        raise MatrixError("M_BAD_JSON", "The query for a server must be an object by key id.")
    if len(queries) > MAX_SERVERS or sum(map(len, queries.values())) > MAX_KEYS:
        raise MatrixError(
            "M_TOO_LARGE", f"A query may name up to {MAX_SERVERS} servers and up to {MAX_KEYS} keys in total."
        )
    if not all(map(is_server_name, queries)):
        raise MatrixError("M_INVALID_PARAM", "server_keys contains an invalid server name.")
    return tuple(_parse_query(server, keys, now_ms) for server, keys in queries.items())


def is_fresh(known: Mapping[str, ServerKey], wanted: KeyQuery, now_ms: int) -> bool:
    """Whether the stored keys of the server satisfy the query without a fetch."""
    if wanted.key_ids:
        return all(_is_fresh(known.get(key_id), wanted, now_ms) for key_id in wanted.key_ids)
    # Any current key is enough: only the server itself knows how many it has.
    return any(key.expired_ts is None and _is_fresh(key, wanted, now_ms) for key in known.values())


def sign_documents(documents: Iterable[bytes], server_name: str, key: LocalKey) -> list[bytes]:
    """ "The receiving (notary) server must sign the keys returned by the queried server." The signature of
    the queried server stays. Documents beyond the size limit are left out, as if their servers were
    offline."""
    signed, remaining = [], MAX_RESPONSE_BYTES
    for document in documents:
        if len(document) <= remaining:
            remaining -= len(document)
            signed.append(encode(sign(decode(document), server_name, key.key_id, key.signing_key)))
    return signed


def encode_response(documents: Iterable[bytes]) -> bytes:
    """The response with these documents, which are already JSON."""
    return b'{"server_keys":[' + b",".join(documents) + b"]}"


def _is_fresh(key: ServerKey | None, wanted: KeyQuery, now_ms: int) -> bool:
    if key is None:
        return False
    if key.expired_ts is not None:
        return True  # an old key does not change any more
    # "Intermediate notary servers should cache a response for half of its lifetime to avoid serving a stale
    # response."
    half = (key.fetched_at + key.valid_until_ts) // 2
    return now_ms <= half and wanted.valid_until <= key.valid_until_ts


def _parse_query(server: str, keys: Mapping[str, Any], now_ms: int) -> KeyQuery:
    minima = [now_ms] if not keys else []
    for criteria in keys.values():
        minimum = criteria.get("minimum_valid_until_ts", now_ms) if isinstance(criteria, dict) else None
        if type(minimum) is not int or not 0 <= minimum <= _LAST_MS:
            raise MatrixError("M_BAD_JSON", "minimum_valid_until_ts must be a time in milliseconds.")
        minima.append(minimum)
    # Keys of unknown algorithms are never stored; without them the query is for all keys of the server.
    key_ids = tuple(key_id for key_id in keys if is_key_id(key_id) and is_known_algorithm(key_id))
    return KeyQuery(server, key_ids, max(minima))
