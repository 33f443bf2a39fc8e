"""The agent peers as all processes of a node share them: the configured ones, and the operators' changes in
Postgres.

Other parts receive live views, which always show the current peers. Listeners are called after the views have
changed, in each process for the changes of any process.
"""

import asyncio
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from pydantic import ValidationError

from bridge.config.agent_federation import AgentFederation, AgentPeer
from bridge.observability.live_view import LiveCollection, LiveMapping
from bridge.observability.report import Report
from bridge.peers.peer import PeerAccess
from bridge.peers.peers import Decision, KnownPeer, PeerRemoval, PeerSnapshot, StoredPeer
from federation.client.peer_settings import PeerSettings
from federation.matrix.networks import Network
from storage.agents import peers as agent_peers
from storage.agents.peers import PeerRow
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.errors import LocalError

TOPIC: Final = "agent-peers"
"""Of the notifications between processes about changed peers."""

Listener = Callable[[Collection[str]], None]
"""Receives the node ids of the changed peers."""


class AgentPeers:
    """Started after the database and before its readers."""

    def __init__(
        self,
        server_name: str,
        federation: AgentFederation,
        database: Database,
        *,
        homeserver: str | None = None,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
    ) -> None:
        """`homeserver` is the homeserver to which this node is attached; None if it is one itself."""
        self._server_name = server_name
        self._homeserver = homeserver
        self._federation = federation
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self.snapshot = self._make_snapshot(())
        self.peers: Mapping[str, PeerAccess] = LiveMapping(lambda: self.snapshot.accesses)
        self.servers: Mapping[str, PeerSettings] = LiveMapping(lambda: self.snapshot.servers)
        self.distrusted: Collection[str] = LiveCollection(lambda: self.snapshot.distrusted)
        self.plain_networks: Collection[Network] = LiveCollection(lambda: self.snapshot.plain_networks)
        self._listeners: list[Listener] = []
        self._reading = asyncio.Lock()
        self._notified = asyncio.Event()
        self._background = BackgroundTasks()
        self._end_subscription: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Load the peers and follow their changes."""
        await self.refresh()
        self._end_subscription = self._database.session.subscribe(TOPIC, lambda _: self._notified.set())
        self._background.supervise("agent peers", self._follow)

    async def close(self) -> None:
        self._end_subscription()
        await self._background.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call the listener for changes by any process; return a function that unsubscribes it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    # -- changes by operators; each returns whether anything changed, and raises LocalError --

    async def add(self, peer: AgentPeer, authority: str | None = None) -> bool:
        """On return the peer is active in this process; the others are notified."""
        if authority is not None:
            _check_authority(authority)
        return await self._apply(lambda snapshot: snapshot.add(peer, authority))

    async def remove(self, node_id: str) -> bool:
        return await self._apply(lambda snapshot: snapshot.remove(node_id))

    async def trust(self, node_id: str, *, trusted: bool) -> bool:
        return await self._apply(lambda snapshot: snapshot.trust(node_id, trusted=trusted))

    async def _apply(self, decide: Callable[[PeerSnapshot], Decision | LocalError]) -> bool:
        async with self._database.transaction() as connection:
            await agent_peers.lock_peers(connection)
            decision = decide(self._make_snapshot(await agent_peers.list_peers(connection)))
            match decision:
                case LocalError():
                    raise decision
                case StoredPeer():
                    await agent_peers.write_peer(connection, _row_of(decision, self._now_ms()))
                case PeerRemoval(node_id):
                    await agent_peers.delete_peer(connection, node_id)
        self._database.session.notify(TOPIC)
        await self.refresh()
        return decision is not None

    # -- notifications --

    async def refresh(self) -> None:
        """Reload the peers. On return the views show what was committed before the call."""
        async with self._reading:
            async with self._database.transaction(readonly=True) as connection:
                rows = await agent_peers.list_peers(connection)
            before, self.snapshot = self.snapshot, self._make_snapshot(rows)
        changed = _changed(before, self.snapshot)
        if not changed:
            return
        for listener in tuple(self._listeners):
            try:
                listener(changed)
            except Exception as error:
                # The other listeners must be called all the same.
                self._report("A listener failed to handle a change of the peers.", error)

    async def _follow(self) -> None:
        await self._notified.wait()
        self._notified.clear()
        try:
            await self.refresh()
        except BaseException:
            self._notified.set()
            raise

    def _make_snapshot(self, rows: Sequence[PeerRow]) -> PeerSnapshot:
        stored = []
        for row in rows:
            try:
                stored.append(_stored_peer(row))
            except ValidationError as error:
                # Stored by another version with wider limits.
                self._report(f"The peer {row.node_id} is invalid and was skipped: add it again.", error)
        return PeerSnapshot(self._server_name, self._federation, stored, homeserver=self._homeserver)


def _changed(before: PeerSnapshot, after: PeerSnapshot) -> list[str]:
    old, new = ({one.node_id: _effective(one) for one in snapshot} for snapshot in (before, after))
    return [node_id for node_id in {**old, **new} if old.get(node_id) != new.get(node_id)]


def _effective(known: KnownPeer) -> tuple[AgentPeer, str | None]:
    return known.settings, known.authority


def _check_authority(authority: str) -> None:
    """Check now what OpenSSL would otherwise refuse at the first connection."""
    try:
        ssl.create_default_context().load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise LocalError(
            f"The certificates of the authority are invalid: {error}.",
            "Ask the peer's operator for its CA certificates in PEM.",
        ) from None


def _row_of(stored: StoredPeer, now_ms: int) -> PeerRow:
    settings = stored.added
    if settings is None:
        return PeerRow(stored.node_id, stored.trusted, None, None, None, None, None, None, None, now_ms, now_ms)
    return PeerRow(
        node_id=stored.node_id,
        trusted=stored.trusted,
        profile=settings.profile.value,
        url=settings.url,
        namespaces=settings.namespaces,
        networks=[str(network) for network in settings.networks],
        signing_key=None if settings.signing_key is None else bytes.fromhex(settings.signing_key),
        require_signature=settings.require_signature,
        authority=stored.authority,
        added_at=now_ms,
        changed_at=now_ms,
    )


def _stored_peer(row: PeerRow) -> StoredPeer:
    """Raises ValidationError."""
    if row.profile is None:
        return StoredPeer(row.node_id, row.trusted)
    settings = AgentPeer(
        node_id=row.node_id,
        url=row.url,
        profile=row.profile,
        namespaces=None if row.namespaces is None else list(row.namespaces),
        networks=list(row.networks or ()),
        signing_key=None if row.signing_key is None else row.signing_key.hex(),
        require_signature=bool(row.require_signature),
    )
    return StoredPeer(row.node_id, row.trusted, settings, row.authority)
