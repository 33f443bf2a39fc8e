"""Has events signed by the policy server of their room, where it has one.

A policy server may take its time or never answer. So it is asked before anything is locked, for a bounded
time, and not again for a while when it has not answered: only the rooms that use it wait.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from cachetools import LRUCache

from federation.client.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from federation.client.peer_events import FederationEvents
from federation.events import Pdu, parse
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.rooms.gap_filling import RoomBatch
from federation.rooms.policy_server import POLICY, PolicyServer, is_signed, merged, named_by, needs_signature
from federation.rooms.receive_checks import Genuine
from federation.rooms.store import RoomMemory, RoomStore

TIMEOUT: Final = 10.0
"""Seconds for an event of ours, and for all events of a transaction together."""
PAUSE: Final = 60.0
"""Seconds for which a policy server that did not answer is not asked again."""
MOST_SILENT: Final = 1_000


class PolicySigning:
    def __init__(
        self,
        server_name: str,
        peer_events: FederationEvents,
        store: RoomStore,
        report: Callable[[str], None],
        *,
        timeout: float = TIMEOUT,
    ) -> None:
        self._server_name = server_name
        self._peer_events = peer_events
        self._store = store
        self._report = report
        self._timeout = timeout
        # Policy servers that did not answer, and until when they are not asked.
        self._silent: LRUCache[str, float] = LRUCache(MOST_SILENT)

    async def signed(
        self, pdu: Pdu, version: RoomVersion, policy: PolicyServer, *, deadline: float | None = None
    ) -> Pdu:
        """The event with its signature. `PeerRefused` if the policy server makes none, `PeerError` if it does
        not answer until the deadline, by the event loop's clock."""
        now = asyncio.get_running_loop().time()
        if self._silent.get(policy.server, now) > now:
            raise PeerUnreachable(policy.server, "did not answer a moment ago and is not asked again yet")
        if deadline is None:
            deadline = now + self._timeout
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._peer_events.sign(policy.server, pdu.event)
        except TimeoutError:
            self._silent[policy.server] = asyncio.get_running_loop().time() + PAUSE
            raise PeerTimedOut(policy.server, "did not sign the event in time") from None
        except PeerUnreachable:
            self._silent[policy.server] = asyncio.get_running_loop().time() + PAUSE
            raise
        event = merged(pdu.event, policy, answer)
        signed = None if event is None else parse(event, version, enforce_counts=False)
        if not isinstance(signed, Pdu) or not is_signed(signed, version, policy):
            raise PeerError(policy.server, "answered without a signature that holds")
        return signed

    async def sign_missing(self, batches: Sequence[tuple[RoomBatch, RoomMemory]]) -> None:
        """Those events of others that come without it: the sender may not know of the policy server yet. The
        rooms of a transaction do not wait for each other."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        await asyncio.gather(*(self._sign_batch(batch, memory, deadline) for batch, memory in batches))

    async def _sign_batch(self, batch: RoomBatch, memory: RoomMemory, deadline: float) -> None:
        policy = await self._used_by(memory)
        if policy is None or policy.server == self._server_name:
            return
        missing = [
            genuine
            for genuine in batch.events.values()
            if needs_signature(genuine.pdu) and not is_signed(genuine.pdu, batch.version, policy)
        ]
        if not missing:
            return
        # Whether it answers is seen from the first one.
        problems = [await self._sign(batch, missing[0], policy, deadline)]
        if problems == [None]:
            problems = await asyncio.gather(
                *(self._sign(batch, genuine, policy, deadline) for genuine in missing[1:])
            )
        problem = next(filter(None, problems), None)
        if problem is not None:
            self._report(f"The policy server of {batch.room_id} does not sign: {problem}")

    async def _sign(
        self, batch: RoomBatch, genuine: Genuine, policy: PolicyServer, deadline: float
    ) -> PeerError | None:
        """Put the event with its signature into the batch, unless it is refused. What is wrong with
        the policy server, if it does neither."""
        try:
            signed = await self.signed(genuine.pdu, batch.version, policy, deadline=deadline)
        except PeerRefused:
            return None
        except PeerError as problem:
            return problem
        batch.events[signed.event_id] = Genuine(signed, genuine.oversized)
        return None

    async def _used_by(self, memory: RoomMemory) -> PolicyServer | None:
        event_id = (await self._store.group(memory.view.state_group)).state.get(POLICY)
        if event_id is None:
            return None
        policy = named_by((await self._store.events([event_id]))[event_id].pdu)
        return policy if policy is not None and policy.server in memory.joined else None
