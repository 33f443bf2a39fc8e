"""Requests signatures of a room's policy server, if it has one.

A policy server may be slow or unresponsive. It is therefore asked before anything is locked and with a
timeout, and is not asked again for a while after a failure. Only the rooms that use it wait.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from cachetools import LRUCache

from federation.client.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from federation.client.peer_events import FederationEventClient
from federation.events import Pdu, parse
from federation.matrix.errors import PeerError
from federation.matrix.room_version import RoomVersion
from federation.rooms.gap_filling import RoomBatch
from federation.rooms.policy_server import (
    POLICY,
    PolicyServer,
    is_signed,
    needs_signature,
    parse_policy_server,
    with_policy_signature,
)
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.store import CachedRoom, RoomStore

TIMEOUT: Final = 10.0
"""Seconds for a local event, and for all events of a received transaction together."""
RETRY_AFTER: Final = 60.0
"""Seconds after a failure before a policy server is asked again."""
MAX_UNRESPONSIVE: Final = 1_000


class PolicySigner:
    """Requests signatures of policy servers. `report` receives a sentence about each failure."""

    def __init__(
        self,
        server_name: str,
        peer_events: FederationEventClient,
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
        # Policy servers that did not respond, and the time from which they are asked again.
        self._unresponsive: LRUCache[str, float] = LRUCache(MAX_UNRESPONSIVE)

    async def sign(self, pdu: Pdu, version: RoomVersion, policy: PolicyServer, *, deadline: float | None = None) -> Pdu:
        """Return the event with the policy server's signature. `PeerRefused` if it refuses to sign,
        `PeerError` if it does not respond before the deadline, by the event loop's clock."""
        now = asyncio.get_running_loop().time()
        if self._unresponsive.get(policy.server, now) > now:
            raise PeerUnreachable(
                policy.server, f"has not responded and is asked again at most every {RETRY_AFTER:.0f} seconds"
            )
        if deadline is None:
            deadline = now + self._timeout
        try:
            async with asyncio.timeout_at(deadline):
                answer = await self._peer_events.sign(policy.server, pdu.event)
        except TimeoutError:
            self._unresponsive[policy.server] = asyncio.get_running_loop().time() + RETRY_AFTER
            raise PeerTimedOut(policy.server, "did not sign the event in time") from None
        except PeerUnreachable:
            self._unresponsive[policy.server] = asyncio.get_running_loop().time() + RETRY_AFTER
            raise
        event = with_policy_signature(pdu.event, policy, answer)
        signed = None if event is None else parse(event, version, enforce_counts=False)
        if not isinstance(signed, Pdu) or not is_signed(signed, version, policy):
            raise PeerError(policy.server, "returned no valid signature")
        return signed

    async def add_missing_signatures(self, batches: Sequence[tuple[RoomBatch, CachedRoom]]) -> None:
        """Get the signatures that received events lack, since the sender may not know of the policy server
        yet. The rooms of a transaction are handled concurrently."""
        deadline = asyncio.get_running_loop().time() + self._timeout
        await asyncio.gather(*(self._sign_batch(batch, room, deadline) for batch, room in batches))

    async def _sign_batch(self, batch: RoomBatch, room: CachedRoom, deadline: float) -> None:
        policy = await self._policy_server_of(room)
        if policy is None or policy.server == self._server_name:
            return
        missing = [
            event
            for event in batch.events.values()
            if needs_signature(event.pdu) and not is_signed(event.pdu, batch.version, policy)
        ]
        if not missing:
            return
        # The first event shows whether the policy server responds.
        problems = [await self._sign(batch, missing[0], policy, deadline)]
        if problems == [None]:
            problems = await asyncio.gather(*(self._sign(batch, event, policy, deadline) for event in missing[1:]))
        problem = next(filter(None, problems), None)
        if problem is not None:
            self._report(f"The policy server of {batch.room_id} did not sign an event: {problem}")

    async def _sign(
        self, batch: RoomBatch, event: VerifiedEvent, policy: PolicyServer, deadline: float
    ) -> PeerError | None:
        """Replace the event in the batch by the signed one, unless the policy server refuses to sign it.
        Returns the error if the policy server has failed."""
        try:
            signed = await self.sign(event.pdu, batch.version, policy, deadline=deadline)
        except PeerRefused:
            return None
        except PeerError as problem:
            return problem
        batch.events[signed.event_id] = VerifiedEvent(signed, event.oversized)
        return None

    async def _policy_server_of(self, room: CachedRoom) -> PolicyServer | None:
        event_id = (await self._store.group(room.view.state_group)).state.get(POLICY)
        if event_id is None:
            return None
        policy = parse_policy_server((await self._store.events([event_id]))[event_id].pdu)
        return policy if policy is not None and policy.server in room.joined_servers else None
