"""Has events signed by the policy server of their room, where it has one."""

from collections.abc import Callable

from federation.errors import PeerError
from federation.pdu import Pdu, parse
from federation.peer_errors import PeerRefused
from federation.policy_server import POLICY, PolicyServer, is_signed, merged, named_by, needs_signature
from federation.receipt import Genuine
from federation.room_version import RoomVersion
from federation.service.gap_filling import RoomBatch
from federation.service.room_ports import PolicySignatures
from federation.service.room_store import RoomMemory, RoomStore


class PolicySigning:
    def __init__(
        self,
        server_name: str,
        signatures: PolicySignatures,
        store: RoomStore,
        report: Callable[[str], None],
    ) -> None:
        self._server_name = server_name
        self._signatures = signatures
        self._store = store
        self._report = report

    async def signed(self, pdu: Pdu, version: RoomVersion, policy: PolicyServer) -> Pdu:
        """The event with its signature. `PeerRefused` if it makes none, `PeerError` if it cannot."""
        answer = await self._signatures.sign(policy.server, pdu.event)
        event = merged(pdu.event, policy, answer)
        signed = None if event is None else parse(event, version, enforce_counts=False)
        if not isinstance(signed, Pdu) or not is_signed(signed, version, policy):
            raise PeerError(policy.server, "answered without a signature that holds")
        return signed

    async def sign_missing(self, batch: RoomBatch, memory: RoomMemory) -> None:
        """Those events of others that come without it: the sender may not know of the policy server yet."""
        policy = await self._used_by(memory)
        if policy is None or policy.server == self._server_name:
            return
        for event_id, genuine in list(batch.events.items()):
            pdu = genuine.pdu
            if not needs_signature(pdu) or is_signed(pdu, batch.version, policy):
                continue
            try:
                signed = await self.signed(pdu, batch.version, policy)
            except PeerRefused:
                continue
            except PeerError as problem:
                self._report(f"The policy server of {batch.room_id} does not sign: {problem}")
                return
            batch.events[event_id] = Genuine(signed, genuine.oversized)

    async def _used_by(self, memory: RoomMemory) -> PolicyServer | None:
        event_id = (await self._store.group(memory.view.state_group)).state.get(POLICY)
        if event_id is None:
            return None
        policy = named_by((await self._store.events([event_id]))[event_id].pdu)
        return policy if policy is not None and policy.server in memory.joined else None
