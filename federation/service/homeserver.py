"""A homeserver: all its parts, put together once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from federation.homeserver_settings import HomeserverSettings
from federation.pdu import Signer
from federation.peer_errors import Outcome
from federation.peer_settings import Peers
from federation.server_keys import OwnKeys
from federation.service.client import ClientObserver, FederationClient
from federation.service.dns import Dns
from federation.service.edus import EduListener, IncomingEdus
from federation.service.handshakes import Handshakes
from federation.service.inbox import Inbox
from federation.service.key_fetch import KeyObserver
from federation.service.key_ring import KeyRing
from federation.service.media import Media
from federation.service.media_fetcher import MediaFetcher
from federation.service.media_store import MediaStore
from federation.service.membership import LocalAlias, Membership
from federation.service.membership_requests import InviteListener, InvitePolicy, MembershipRequests
from federation.service.outbox import Outbox
from federation.service.outbox_observer import OutboxObserver, Silent
from federation.service.peer_connections import PeerConnections
from federation.service.peer_events import FederationEvents
from federation.service.public_web import PublicWeb
from federation.service.request_authenticator import RequestAuthenticator
from federation.service.resolver import Resolver
from federation.service.room_graph import RoomGraph
from federation.service.room_ports import RoomObserver
from federation.service.room_requests import RoomRequests
from storage.database import Database
from storage.errors import LocalError
from storage.media_files import MediaFiles

PRUNED_EVERY: Final = 24 * 3600.0
"""Seconds between two prunings of what is remembered for a number of days."""


class Observer(RoomObserver, OutboxObserver, ClientObserver, KeyObserver, Protocol):
    """Whoever counts what a homeserver does."""

    def kept_from(self, sentence: str) -> None:
        """Another server could not or would not give what was needed."""


class Unobserved(Silent):
    """Nobody counts."""

    def kept_from(self, sentence: str) -> None: ...

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None: ...

    def keys_fetched(self, source: str, outcome: Outcome) -> None: ...

    def event_received(self, verdict: str) -> None: ...

    def state_resolved(self, seconds: float) -> None: ...

    def event_sent(self) -> None: ...


class People(EduListener, InviteListener, Protocol):
    """Those who live on this homeserver, as other servers' users meet them."""


@dataclass(frozen=True, slots=True)
class Doors:
    """What the parts that deal with other servers ask of those that look after our own users."""

    people: People
    local_alias: LocalAlias
    may_be_invited: InvitePolicy


@dataclass(frozen=True, slots=True)
class Homeserver:
    """The parts that others have to do with: the port, the operator's commands, the centre."""

    settings: HomeserverSettings
    database: Database
    now_ms: Callable[[], int]
    # To others.
    resolver: Resolver
    connections: PeerConnections
    client: FederationClient
    key_ring: KeyRing
    outbox: Outbox
    # Rooms.
    graph: RoomGraph
    membership: Membership
    media: Media
    # From others.
    authenticator: RequestAuthenticator
    room_requests: RoomRequests
    membership_requests: MembershipRequests
    inbox: Inbox

    @property
    def server_name(self) -> str:
        return self.settings.server_name


@contextlib.asynccontextmanager
async def open_homeserver(
    settings: HomeserverSettings,
    database: Database,
    own_keys: Callable[[], OwnKeys],
    *,
    now_ms: Callable[[], int],
    observer: Observer,
    doors: Callable[[RoomGraph], Doors],
) -> AsyncIterator[Homeserver]:
    """It works from here on, and has finished what was begun when the context ends. The port is opened by
    others. Raises LocalError when a file that the settings name cannot be used."""
    name, admits = settings.server_name, settings.policy.admits

    def signer() -> Signer:
        key = own_keys().current
        return Signer(name, key.key_id, key.signing_key)

    async with contextlib.AsyncExitStack() as stack:
        dns, peers, user_agent = Dns(settings.name_servers), Peers(settings.peers), _user_agent(settings)
        connections = PeerConnections(
            dns, peers, user_agent=user_agent, authorities=settings.authorities, blocked=settings.blocked
        )
        stack.push_async_callback(connections.close)
        resolver = Resolver(connections, dns, peers)
        stack.push_async_callback(resolver.close)
        client = FederationClient(
            name, own_keys, resolver, connections, may_contact=admits, observer=observer
        )
        key_ring = KeyRing(
            name,
            own_keys,
            client,
            database,
            now_ms=now_ms,
            notaries=settings.notaries,
            observer=observer,
        )
        stack.push_async_callback(key_ring.close)
        outbox = Outbox(name, database, client, now_ms=now_ms, may_contact=admits, observer=observer)
        graph = RoomGraph(
            name,
            database,
            keys=key_ring,
            peer_events=FederationEvents(client),
            signer=signer,
            now_ms=now_ms,
            on_commit=outbox.on_commit,
            observer=observer,
            report=observer.kept_from,
        )
        opened = doors(graph)
        handshakes = Handshakes(client)
        membership = Membership(
            name,
            graph,
            handshakes,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            local_alias=opened.local_alias,
        )
        authenticator = RequestAuthenticator(name, key_ring, is_allowed=admits, heard=outbox.heard_from)
        requests = MembershipRequests(
            name,
            graph,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            may_be_invited=opened.may_be_invited,
            listener=opened.people,
            in_full=settings.members_in_full,
        )
        edus = IncomingEdus(database, graph, opened.people)
        inbox = Inbox(database, graph, edus)
        media = await _open_media(stack, settings, database, client, dns, now_ms)

        await outbox.start()
        stack.push_async_callback(outbox.close)
        graph.stream.start()
        stack.push_async_callback(graph.close)
        for work in (media.keep_pruned(), _keep_pruned([inbox.prune, edus.prune], observer)):
            stack.push_async_callback(_end, asyncio.create_task(work))
        yield Homeserver(
            settings,
            database,
            now_ms,
            resolver,
            connections,
            client,
            key_ring,
            outbox,
            graph,
            membership,
            media,
            authenticator,
            RoomRequests(name, graph),
            requests,
            inbox,
        )


def _user_agent(settings: HomeserverSettings) -> str:
    return f"Palaver/{settings.software_version}"


async def _open_media(
    stack: contextlib.AsyncExitStack,
    settings: HomeserverSettings,
    database: Database,
    client: FederationClient,
    dns: Dns,
    now_ms: Callable[[], int],
) -> Media:
    web = PublicWeb(dns, user_agent=_user_agent(settings), authorities=settings.authorities)
    stack.push_async_callback(web.close)
    files = MediaFiles(settings.media_directory, reserve=settings.media.reserve)
    store = MediaStore(database, files, now_ms)
    fetcher = MediaFetcher(store, client, web, settings.media.max_remote_size)
    media = Media(settings.server_name, store, fetcher, settings.media)
    await media.start()
    stack.push_async_callback(media.close)
    return media


async def _keep_pruned(prunings: Sequence[Callable[[], Awaitable[int]]], observer: Observer) -> None:
    """Forget once a day what nobody asks for any more, beginning with the start."""
    while True:
        for prune in prunings:
            try:
                await prune()
            except (LocalError, OSError) as error:
                # Tomorrow is soon enough: nothing depends on it but the room on the disk.
                observer.problem("What is out of date could not be forgotten.", error)
        await asyncio.sleep(PRUNED_EVERY)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
