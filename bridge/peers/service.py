"""The peers with which agents are exchanged, as all processes of a node share them: the configuration's, and
what operators have said since, which is in Postgres.

What others are given of them are views: they say what holds when they are asked. Whoever has to do something
when a peer changes is told, after the views say so; each process is told of what any of them has done.
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
from bridge.peers.peers import AgentPeerBook, Decision, Forget, Kept, KnownPeer
from federation.client.peer_settings import PeerSettings
from federation.matrix.networks import Network
from storage.agents import peers as agent_peers
from storage.agents.peers import PeerRow
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.errors import LocalError

TOPIC: Final = "agent-peers"
"""Of the notifications by which processes tell each other that peers have changed."""

Listener = Callable[[Collection[str]], None]
"""Is given the ids of the peers that have changed."""


class AgentPeers:
    """Started after the database and before everything that asks."""

    def __init__(
        self,
        server_name: str,
        federation: AgentFederation,
        database: Database,
        *,
        guest_of: str | None = None,
        now_ms: Callable[[], int],
        report: Report = lambda sentence, error: None,
    ) -> None:
        """`guest_of` is the homeserver of which this node is a guest; None: it is one itself."""
        self._server_name = server_name
        self._guest_of = guest_of
        self._federation = federation
        self._database = database
        self._now_ms = now_ms
        self._report = report
        self.book = self._book_of(())
        self.peers: Mapping[str, PeerAccess] = LiveMapping(lambda: self.book.accesses)
        self.servers: Mapping[str, PeerSettings] = LiveMapping(lambda: self.book.servers)
        self.distrusted: Collection[str] = LiveCollection(lambda: self.book.distrusted)
        self.plain_networks: Collection[Network] = LiveCollection(lambda: self.book.plain_networks)
        self._listeners: list[Listener] = []
        self._reading = asyncio.Lock()
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()
        self._end_subscription: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Know all of them, and follow what becomes of them."""
        await self.refresh()
        self._end_subscription = self._database.session.subscribe(TOPIC, lambda _: self._woken.set())
        self._background.supervise("agent peers", self._follow)

    async def close(self) -> None:
        self._end_subscription()
        await self._background.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of changes, whichever process made them; gives what ends it."""
        self._listeners.append(listener)

        def end() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return end

    # -- what operators want; each gives whether it was not so already, and raises LocalError --

    async def add(self, peer: AgentPeer, authority: str | None = None) -> bool:
        """On return it is a peer, in this process; the others hear of it."""
        if authority is not None:
            _try_authority(authority)
        return await self._decide(lambda book: book.add(peer, authority))

    async def remove(self, node_id: str) -> bool:
        return await self._decide(lambda book: book.remove(node_id))

    async def trust(self, node_id: str, *, trusted: bool) -> bool:
        return await self._decide(lambda book: book.trust(node_id, trusted=trusted))

    async def _decide(self, decide: Callable[[AgentPeerBook], Decision | LocalError]) -> bool:
        async with self._database.transaction() as connection:
            await agent_peers.lock_peers(connection)
            decision = decide(self._book_of(await agent_peers.list_peers(connection)))
            match decision:
                case LocalError():
                    raise decision
                case Kept():
                    await agent_peers.write_peer(connection, _row_of(decision, self._now_ms()))
                case Forget(node_id):
                    await agent_peers.delete_peer(connection, node_id)
        self._database.session.notify(TOPIC)
        await self.refresh()
        return decision is not None

    # -- following --

    async def refresh(self) -> None:
        """Read them. On return the views say what was committed before the call."""
        async with self._reading:
            async with self._database.transaction(readonly=True) as connection:
                rows = await agent_peers.list_peers(connection)
            before, self.book = self.book, self._book_of(rows)
        changed = _changed(before, self.book)
        if not changed:
            return
        for listener in tuple(self._listeners):
            try:
                listener(changed)
            except Exception as error:
                # The others must hear of it all the same.
                self._report("A change of the peers was not worked on.", error)

    async def _follow(self) -> None:
        await self._woken.wait()
        self._woken.clear()
        try:
            await self.refresh()
        except BaseException:
            self._woken.set()
            raise

    def _book_of(self, rows: Sequence[PeerRow]) -> AgentPeerBook:
        kept = []
        for row in rows:
            try:
                kept.append(_kept_of(row))
            except ValidationError as error:
                # Written by another version, which took more.
                self._report(f"The peer {row.node_id} is left out: add it again.", error)
        return AgentPeerBook(self._server_name, self._federation, kept, guest_of=self._guest_of)


def _changed(before: AgentPeerBook, after: AgentPeerBook) -> list[str]:
    old, new = ({one.node_id: _standing(one) for one in book} for book in (before, after))
    return [node_id for node_id in {**old, **new} if old.get(node_id) != new.get(node_id)]


def _standing(known: KnownPeer) -> tuple[AgentPeer, str | None]:
    return known.said, known.authority


def _try_authority(authority: str) -> None:
    """What OpenSSL does not take would be found out when somebody wants to connect."""
    try:
        ssl.create_default_context().load_verify_locations(cadata=authority)
    except (ssl.SSLError, ValueError) as error:
        raise LocalError(
            f"The certificates of the authority cannot be used: {error}.",
            "Ask whoever runs the peer for its authority in PEM.",
        ) from None


def _row_of(kept: Kept, now_ms: int) -> PeerRow:
    said = kept.added
    if said is None:
        return PeerRow(kept.node_id, kept.trusted, None, None, None, None, None, None, None, now_ms, now_ms)
    return PeerRow(
        node_id=kept.node_id,
        trusted=kept.trusted,
        profile=said.profile.value,
        url=said.url,
        namespaces=said.namespaces,
        networks=[str(network) for network in said.networks],
        signing_key=None if said.signing_key is None else bytes.fromhex(said.signing_key),
        require_signature=said.require_signature,
        authority=kept.authority,
        added_at=now_ms,
        changed_at=now_ms,
    )


def _kept_of(row: PeerRow) -> Kept:
    """Raises ValidationError."""
    if row.profile is None:
        return Kept(row.node_id, row.trusted)
    said = AgentPeer(
        node_id=row.node_id,
        url=row.url,
        profile=row.profile,
        namespaces=None if row.namespaces is None else list(row.namespaces),
        networks=list(row.networks or ()),
        signing_key=None if row.signing_key is None else row.signing_key.hex(),
        require_signature=bool(row.require_signature),
    )
    return Kept(row.node_id, row.trusted, said, row.authority)
