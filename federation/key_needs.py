"""Which keys of other servers are needed, and whether a key that is known will do."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from federation.key_documents import ServerKey
from federation.pdu.event_signatures import required_signatures
from federation.pdu.pdu import Pdu
from federation.room_version import RoomVersion

WHENEVER: Final = 0
"""For a signature whose key may have been valid at any time."""

AHEAD_MS: Final = 3600 * 1000
"""How far ahead every document reaches: none is published for less than an hour."""


class KeyNeed(NamedTuple):
    """A key of a server that was valid at a time, in milliseconds."""

    server: str
    key_id: str
    valid_at: int = WHENEVER


def needs_of(pdu: Pdu, version: RoomVersion) -> frozenset[KeyNeed]:
    """The keys that the signatures of an event were made with, as far as somebody must have signed it."""
    valid_at = pdu.origin_server_ts if version.enforces_key_validity else WHENEVER
    needs = set()
    for required in required_signatures(pdu, version):
        made = pdu.signatures.get(required.server)
        if isinstance(made, dict):
            needs |= {
                KeyNeed(required.server, key_id, valid_at) for key_id in made if is_known_algorithm(key_id)
            }
    return frozenset(needs)


def is_known_algorithm(key_id: str) -> bool:
    return key_id.startswith("ed25519:")


def suffices(key: ServerKey | None, need: KeyNeed, now_ms: int) -> bool:
    """Whether there is nothing to fetch. Of a key that has ended nothing else will ever be heard.

    An event from the future is no reason to fetch: no document will ever reach that far.
    """
    if key is None:
        return False
    return key.expired_ts is not None or key.valid_until_ts >= min(need.valid_at, now_ms + AHEAD_MS)


def unmet(
    needs: Iterable[KeyNeed], known: Mapping[str, Mapping[str, ServerKey]], now_ms: int
) -> dict[str, tuple[KeyNeed, ...]]:
    """What is left to be fetched, by server."""
    left: dict[str, tuple[KeyNeed, ...]] = {}
    for need in needs:
        if not _is_met(need, known.get(need.server, {}), now_ms):
            left[need.server] = (*left.get(need.server, ()), need)
    return left


def _is_met(need: KeyNeed, keys: Mapping[str, ServerKey], now_ms: int) -> bool:
    return suffices(keys.get(need.key_id), need, now_ms)
