"""Examines events that other servers gave: their form, their signatures and their hashes, many at a time."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from federation.key_needs import KeyNeed, needs_of
from federation.pdu import Malformed, Parsed, Pdu, parse, read
from federation.pdu.event_signatures import verify_event
from federation.receipt import Dropped, Examination, Genuine, examine, unsigned
from federation.room_version import RoomVersion
from federation.service.room_ports import Keys
from federation.signatures import NeedKeys, Verified

AT_ONCE: Final = 50
"""After so many events others get their turn: it takes some five milliseconds."""


class EventExaminer:
    def __init__(self, keys: Keys, now_ms: Callable[[], int]) -> None:
        self._keys = keys
        self._now_ms = now_ms

    async def examine(
        self, events: Iterable[tuple[Any, RoomVersion]], *, enforce_counts: bool = True
    ) -> list[tuple[Parsed, Genuine | Dropped]]:
        """Each event with its room's version, in their order."""
        return await self.check(await self.parse(events, enforce_counts=enforce_counts))

    async def examine_one(self, event: Any, version: RoomVersion) -> Genuine | Dropped:
        """A single one, of which the id is not needed before."""
        parsed, signed = read(event, version)
        if isinstance(parsed, Malformed):
            return _finally(examine(parsed, version, {}, 0))
        keys = await self._keys.keys_for(needs_of(parsed if isinstance(parsed, Pdu) else parsed.pdu, version))
        return _finally(examine(parsed, version, keys, self._now_ms(), signed))

    async def is_signed(self, pdu: Pdu, signed: bytes, version: RoomVersion) -> bool:
        """Step 2 by itself, of an event that has its form and its hash."""
        keys = await self._keys.keys_for(needs_of(pdu, version))
        return isinstance(verify_event(pdu, version, keys, self._now_ms(), signed), Verified)

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
