"""Examines events that other servers gave: their form, their signatures and their hashes, many at a time.

Whether the signatures of events hold, with whatever keys that takes.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from federation.events import Malformed, Parsed, Pdu, parse
from federation.events.event_signatures import verify_event
from federation.events.hashes import signed_bytes
from federation.events.received import Dropped
from federation.keys.key_ring import KeyRing
from federation.keys.server_keys import KeyNeed, is_known_algorithm, needs_of
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import NeedKeys, Verified, verify
from federation.rooms.receive_checks import Examination, Genuine, examine, unsigned

AT_ONCE: Final = 50
"""After so many events others get their turn: it takes some five milliseconds."""


class EventExaminer:
    def __init__(self, keys: KeyRing, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._now_ms = now_ms

    async def examine(
        self, events: Iterable[tuple[Any, RoomVersion]], *, enforce_counts: bool = True
    ) -> list[tuple[Parsed, Genuine | Dropped]]:
        """Each event with its room's version, in their order."""
        return await self.check(await self.parse(events, enforce_counts=enforce_counts))

    async def parse(
        self, events: Iterable[tuple[Any, RoomVersion]], *, enforce_counts: bool = True
    ) -> list[tuple[Parsed, RoomVersion]]:
        """As far as nothing but the event is needed: then its id is known."""
        parsed: list[tuple[Parsed, RoomVersion]] = []
        for number, (event, version) in enumerate(events, start=1):
            parsed.append((parse(event, version, enforce_counts=enforce_counts), version))
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return parsed

    async def check(
        self, parsed: Sequence[tuple[Parsed, RoomVersion]]
    ) -> list[tuple[Parsed, Genuine | Dropped]]:
        """The keys of all are asked for together."""
        keys = await self._keys.keys_for(_needs(parsed))
        now = self._now_ms()
        examined = []
        for number, (one, version) in enumerate(parsed, start=1):
            examined.append((one, _finally(examine(one, version, keys, now))))
            if not number % AT_ONCE:
                await asyncio.sleep(0)
        return examined


def _needs(parsed: Sequence[tuple[Parsed, RoomVersion]]) -> list[KeyNeed]:
    """Of each key the latest time at which it must be valid: what was valid then was so before."""
    latest: dict[tuple[str, str], int] = {}
    for one, version in parsed:
        if isinstance(one, Malformed):
            continue
        for need in needs_of(one if isinstance(one, Pdu) else one.pdu, version):
            key = need.server, need.key_id
            latest[key] = max(latest.get(key, 0), need.valid_at)
    return [KeyNeed(server, key_id, valid_at) for (server, key_id), valid_at in latest.items()]


def _finally(examination: Examination) -> Genuine | Dropped:
    return unsigned(examination) if isinstance(examination, NeedKeys) else examination


async def all_signed(keys: KeyRing, pdus: Iterable[Pdu], version: RoomVersion, now_ms: int) -> bool:
    """Whether each of the events has the signatures that it needs."""
    events = list(pdus)
    known = await keys.keys_for(set().union(*(needs_of(pdu, version) for pdu in events)))
    return all(isinstance(verify_event(pdu, version, known, now_ms), Verified) for pdu in events)


async def signed_by(keys: KeyRing, pdu: Pdu, version: RoomVersion, server: str, now_ms: int) -> bool:
    """Whether a server has signed the event, whether it needs that or not."""
    key_ids = [key_id for key_id in pdu.signatures.get(server, {}) if is_known_algorithm(key_id)]
    known = await keys.keys_for([KeyNeed(server, key_id) for key_id in key_ids])
    result = verify(
        signed_bytes(pdu.event, version), pdu.signatures, server, known.get(server, {}), now_ms=now_ms
    )
    return isinstance(result, Verified)
