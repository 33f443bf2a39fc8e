"""Verifies the format, signatures and hashes of received events, many at a time, and fetches the keys for
it."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from federation.events import Malformed, ParseResult, Pdu, parse
from federation.events.event_signatures import verify_event
from federation.events.hashes import signed_bytes
from federation.events.received import Dropped
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import KeyNeed, is_known_algorithm, required_keys
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import NeedKeys, Verified, verify
from federation.rooms.receive_checks import VerifiedEvent, dropped_without_keys, verify_pdu

AT_ONCE: Final = 50
"""Events after which other tasks get to run, about every five milliseconds."""


class EventVerifier:
    """Verifies received events, with keys from the key ring."""

    def __init__(self, keys: KeyRing, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._now_ms = now_ms

    async def verify(
        self, events: Iterable[tuple[Any, RoomVersion]], *, enforce_counts: bool = True
    ) -> list[tuple[ParseResult, VerifiedEvent | Dropped]]:
        """Verify events, each given with its room's version, and return the results in the same order."""
        return await self.verify_parsed(await self.parse(events, enforce_counts=enforce_counts))

    async def parse(
        self, events: Iterable[tuple[Any, RoomVersion]], *, enforce_counts: bool = True
    ) -> list[tuple[ParseResult, RoomVersion]]:
        """Parse events, which makes their ids known, without fetching keys."""
        parsed: list[tuple[ParseResult, RoomVersion]] = []
        for number, (event, version) in enumerate(events, start=1):
            parsed.append((parse(event, version, enforce_counts=enforce_counts), version))
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return parsed

    async def verify_parsed(
        self, parsed: Sequence[tuple[ParseResult, RoomVersion]]
    ) -> list[tuple[ParseResult, VerifiedEvent | Dropped]]:
        """Verify parsed events, after fetching the keys of all of them together."""
        keys = await self._keys.keys_for(_needs(parsed))
        now = self._now_ms()
        verified = []
        for number, (one, version) in enumerate(parsed, start=1):
            result = verify_pdu(one, version, keys, now)
            if isinstance(result, NeedKeys):
                result = dropped_without_keys(result)
            verified.append((one, result))
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return verified


def _needs(parsed: Sequence[tuple[ParseResult, RoomVersion]]) -> list[KeyNeed]:
    """Each key that is needed, with the latest time at which it must be valid. A key that is valid then was
    valid before."""
    latest: dict[tuple[str, str], int] = {}
    for one, version in parsed:
        if isinstance(one, Malformed):
            continue
        for need in required_keys(one if isinstance(one, Pdu) else one.pdu, version):
            key = need.server, need.key_id
            latest[key] = max(latest.get(key, 0), need.valid_at)
    return [KeyNeed(server, key_id, valid_at) for (server, key_id), valid_at in latest.items()]


async def are_signed(keys: KeyRing, pdus: Iterable[Pdu], version: RoomVersion, now_ms: int) -> bool:
    """Whether each of the events has all the signatures that it needs."""
    events = list(pdus)
    known = await keys.keys_for(set().union(*(required_keys(pdu, version) for pdu in events)))
    return all(isinstance(verify_event(pdu, version, known, now_ms), Verified) for pdu in events)


async def is_signed_by(keys: KeyRing, pdu: Pdu, version: RoomVersion, server: str, now_ms: int) -> bool:
    """Whether a server has signed the event, even if its signature is not required."""
    key_ids = [key_id for key_id in pdu.signatures.get(server, {}) if is_known_algorithm(key_id)]
    known = await keys.keys_for([KeyNeed(server, key_id) for key_id in key_ids])
    result = verify(signed_bytes(pdu.event, version), pdu.signatures, server, known.get(server, {}), now_ms=now_ms)
    return isinstance(result, Verified)
