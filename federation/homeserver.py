"""Assembles a homeserver from its parts, by its settings."""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from federation.client.client import FederationClient, RequestRecorder
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.peer_events import FederationEventClient
from federation.client.peer_settings import ConfiguredPeers, PeerSettings
from federation.client.public_web import PublicWeb
from federation.client.resolver import Resolver
from federation.directory.aliases import Directory
from federation.directory.profiles import Profiles
from federation.directory.public_rooms import PublicRooms
from federation.directory.room_summary import RoomSummaries
from federation.directory.space_walk import SpaceHierarchies
from federation.events import Signer
from federation.keys.key_ring import KeyRing
from federation.keys.notary import Notary
from federation.keys.server_keys import LocalKeys
from federation.local_users.local_users import LocalUsers
from federation.matrix.errors import MatrixError
from federation.matrix.networks import NOT_PUBLIC, Network
from federation.media.fetcher import MediaFetcher
from federation.media.media import MediaSettings
from federation.media.repository import MediaRepository
from federation.media.store import MediaStore
from federation.memberships.incoming import InvitePolicy, MembershipRequestHandler
from federation.memberships.late_invites import LateInvites
from federation.memberships.outgoing import MembershipClient, MembershipService
from federation.memberships.send_join_response import MAX_MEMBERS_IN_FULL
from federation.observer import HomeserverObserver
from federation.outbox.outbox import Outbox
from federation.peers.audit_trail import AuditTrail
from federation.peers.limits import PeerLimits
from federation.peers.policy import FederationPolicy, policy
from federation.peers.request_authenticator import RequestAuthenticator
from federation.peers.request_limiter import RequestLimiter
from federation.rooms.engine import RoomGraph
from federation.rooms.pending_joins import PendingJoins
from federation.rooms.requests import RoomRequestHandler
from federation.transactions.edu_dispatcher import EduDispatcher
from federation.transactions.inbox import Inbox
from federation.transactions.incoming_edus import IncomingEdus
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.media.files import MediaFiles


@dataclass(frozen=True, slots=True)
class HomeserverSettings:
    """The settings of a homeserver.

    `authorities` is a file of certificates to trust in addition to the system's. `added_peers` are peers
    that are added and removed at runtime, by lower-case name; the mapping is read for each request, and
    `peers` takes precedence. `blocked` are networks that no server may direct requests into, unless a
    peer's settings name the address. `name_servers` replace those of the system."""

    server_name: str
    software_version: str
    media_directory: Path
    peers: Mapping[str, PeerSettings] = field(default_factory=dict)
    added_peers: Mapping[str, PeerSettings] = field(default_factory=dict)
    policy: FederationPolicy = field(default_factory=lambda: policy((), is_open=False))
    authorities: Path | None = None
    blocked: tuple[Network, ...] = NOT_PUBLIC
    name_servers: tuple[tuple[str, int], ...] = ()
    notaries: tuple[str, ...] = ()
    media: MediaSettings = field(default_factory=MediaSettings)
    # Whether other servers may query the room directory.
    shows_public_rooms: bool = True
    # `host[:port]` for `/.well-known/matrix/server`; None if the server name needs no delegation.
    delegated_name: str | None = None
    peer_limits: PeerLimits = field(default_factory=PeerLimits)
    # For how many days audit entries are kept.
    audit_days: float = 90
    # Up to how many members a room's full member list is sent to a joining server.
    members_in_full: int = MAX_MEMBERS_IN_FULL


@dataclass(frozen=True, slots=True)
class PeerClients:
    resolver: Resolver
    connections: PeerConnections
    client: FederationClient
    key_ring: KeyRing
    web: PublicWeb


def open_peer_clients(
    stack: contextlib.AsyncExitStack,
    settings: HomeserverSettings,
    database: Database,
    own_keys: Callable[[], LocalKeys],
    *,
    now_ms: Callable[[], int],
    observer: HomeserverObserver,
    recorder: RequestRecorder,
) -> PeerClients:
    """Open the clients; the stack closes them. Raises LocalError if a configured file cannot be used."""
    dns, peers = Dns(settings.name_servers), ConfiguredPeers(settings.peers, settings.added_peers)
    user_agent = f"Palaver/{settings.software_version}"
    connections = PeerConnections(
        dns, peers, user_agent=user_agent, authorities=settings.authorities, blocked=settings.blocked
    )
    stack.push_async_callback(connections.close)
    resolver = Resolver(connections, dns, peers)
    stack.push_async_callback(resolver.close)
    client = FederationClient(
        settings.server_name,
        own_keys,
        resolver,
        connections,
        may_contact=settings.policy.admits,
        observer=observer,
        recorder=recorder,
    )
    key_ring = KeyRing(
        settings.server_name, own_keys, client, database, now_ms=now_ms, notaries=settings.notaries, observer=observer
    )
    stack.push_async_callback(key_ring.close)
    web = PublicWeb(dns, user_agent=user_agent, authorities=settings.authorities)
    stack.push_async_callback(web.close)
    return PeerClients(resolver, connections, client, key_ring, web)


PRUNE_INTERVAL: Final = 24 * 3600.0
"""Seconds between two prunings of expired records."""


@dataclass(frozen=True, slots=True)
class Homeserver:
    """The parts of a homeserver that the port, the operator's commands and the core use."""

    settings: HomeserverSettings
    database: Database
    now_ms: Callable[[], int]
    # Requests to other servers.
    resolver: Resolver
    connections: PeerConnections
    client: FederationClient
    key_ring: KeyRing
    outbox: Outbox
    # Rooms and local users.
    graph: RoomGraph
    membership: MembershipService
    media: MediaRepository
    profiles: Profiles
    directory: Directory
    public_rooms: PublicRooms
    spaces: SpaceHierarchies
    local_users: LocalUsers
    # From others.
    limiter: RequestLimiter
    authenticator: RequestAuthenticator
    notary: Notary
    room_requests: RoomRequestHandler
    membership_requests: MembershipRequestHandler
    inbox: Inbox
    audit: AuditTrail

    @property
    def server_name(self) -> str:
        return self.settings.server_name


@contextlib.asynccontextmanager
async def open_homeserver(
    settings: HomeserverSettings,
    database: Database,
    own_keys: Callable[[], LocalKeys],
    *,
    now_ms: Callable[[], int],
    observer: HomeserverObserver,
    may_be_invited: InvitePolicy | None = None,
) -> AsyncIterator[Homeserver]:
    """Run a homeserver without its port while the context is open.

    `may_be_invited` is the node's invite policy, called for existing users. Raises LocalError if a
    configured file cannot be used."""
    name, admits = settings.server_name, settings.policy.admits
    report = partial(_report, observer)

    def signer() -> Signer:
        key = own_keys().current
        return Signer(name, key.key_id, key.signing_key)

    async with contextlib.AsyncExitStack() as stack:
        audit = AuditTrail(database, now_ms=now_ms, report=observer.problem)
        audit.start()
        stack.push_async_callback(audit.close)
        clients = open_peer_clients(
            stack, settings, database, own_keys, now_ms=now_ms, observer=observer, recorder=audit
        )
        client, key_ring = clients.client, clients.key_ring
        membership_client = MembershipClient(client)
        outbox = Outbox(name, database, client, now_ms=now_ms, may_contact=admits, observer=observer)

        # Rooms.
        pending_joins = PendingJoins()
        graph = RoomGraph(
            name,
            database,
            keys=key_ring,
            peer_events=FederationEventClient(client),
            signer=signer,
            now_ms=now_ms,
            queue=outbox,
            observer=observer,
            report=observer.remote_data_missing,
            pending_joins=pending_joins,
        )
        directory = Directory(name, database, membership_client, graph, now_ms=now_ms)
        membership = MembershipService(
            name,
            graph,
            membership_client,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            local_alias=directory.resolve,
            pending_joins=pending_joins,
        )

        # Local users.
        media = await _open_media(stack, settings, database, clients, now_ms)
        profiles = Profiles(name, database, client, graph, now_ms=now_ms, report=report)
        summaries = RoomSummaries(name, database, graph)
        public_rooms = PublicRooms(
            database, client, summaries, public_rooms_over_federation=settings.shows_public_rooms
        )
        spaces = SpaceHierarchies(name, database, client, graph, summaries, now_ms=now_ms)
        stack.push_async_callback(spaces.close)
        edu_dispatcher = EduDispatcher(
            name,
            database,
            now_ms=now_ms,
            on_events_seen=outbox.mark_seen,
            wake_readers=graph.stream.wake,
            report=report,
        )
        stack.push_async_callback(edu_dispatcher.close)
        local_users = LocalUsers(
            name,
            database,
            graph=graph,
            membership=membership,
            profiles=profiles,
            directory=directory,
            media=media,
            outbox=outbox,
            edus=edu_dispatcher,
            now_ms=now_ms,
            report=report,
        )

        # From others.
        limiter = RequestLimiter(settings.peer_limits)
        authenticator = RequestAuthenticator(
            name, key_ring, is_allowed=admits, on_authenticated=outbox.request_received, limiter=limiter
        )
        notary = Notary(name, key_ring, own_keys, now_ms=now_ms, may_contact=admits)
        stack.push_async_callback(notary.close)
        late_invites = LateInvites(graph)
        requests = MembershipRequestHandler(
            name,
            graph,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            invite_policy=build_invite_policy(profiles, may_be_invited),
            listener=edu_dispatcher,
            on_invite_signed=late_invites.schedule,
            max_full_members=settings.members_in_full,
        )
        edus = IncomingEdus(database, graph, edu_dispatcher)
        inbox = Inbox(database, graph, edus, audit=audit.transaction_row)

        await outbox.start()
        stack.push_async_callback(outbox.close)
        graph.stream.start()
        stack.push_async_callback(graph.close)
        stack.push_async_callback(late_invites.close)
        local_users.start()
        stack.push_async_callback(local_users.close)
        await profiles.start()
        stack.push_async_callback(profiles.close)
        prunings = (inbox.prune, edus.prune, local_users.prune, partial(audit.prune, settings.audit_days))
        background = BackgroundTasks()
        stack.push_async_callback(background.close)
        background.supervise("expired media", media.prune_forever)
        for prune in prunings:
            background.supervise("expired records", prune, every=PRUNE_INTERVAL)
        yield Homeserver(
            settings,
            database,
            now_ms,
            clients.resolver,
            clients.connections,
            client,
            key_ring,
            outbox,
            graph,
            membership,
            media,
            profiles,
            directory,
            public_rooms,
            spaces,
            local_users,
            limiter,
            authenticator,
            notary,
            RoomRequestHandler(name, graph),
            requests,
            inbox,
            audit,
        )


def _report(observer: HomeserverObserver, sentence: str) -> None:
    observer.problem(sentence, None)


async def _open_media(
    stack: contextlib.AsyncExitStack,
    settings: HomeserverSettings,
    database: Database,
    clients: PeerClients,
    now_ms: Callable[[], int],
) -> MediaRepository:
    files = MediaFiles(settings.media_directory, reserve=settings.media.reserve)
    store = MediaStore(database, files, now_ms)
    fetcher = MediaFetcher(store, clients.client, clients.web, settings.media.max_remote_size)
    media = MediaRepository(settings.server_name, store, fetcher, settings.media)
    await media.start()
    stack.push_async_callback(media.close)
    return media


def build_invite_policy(profiles: Profiles, node_policy: InvitePolicy | None = None) -> InvitePolicy:
    """Return an invite policy that refuses unknown users and then applies the node's policy, which raises
    M_INVITE_BLOCKED."""

    async def may_be_invited(user: str, sender: str, room_id: str) -> None:
        if not await profiles.exists(user):
            raise MatrixError("M_NOT_FOUND", f"The user {user[:255]} does not exist on this server.", 404)
        if node_policy is not None:
            await node_policy(user, sender, room_id)

    return may_be_invited
