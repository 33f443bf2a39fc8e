"""A homeserver: all its parts, put together once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from federation.homeserver_settings import HomeserverSettings
from federation.pdu import Signer
from federation.server_keys import OwnKeys
from federation.service.arrivals import Arrivals
from federation.service.audit import AuditTrail
from federation.service.client import FederationClient
from federation.service.directory import Directory
from federation.service.edus import IncomingEdus
from federation.service.ephemeral import EphemeralNews
from federation.service.handshakes import Handshakes
from federation.service.homeserver_observer import HomeserverObserver
from federation.service.inbox import Inbox
from federation.service.invite_policy import invites_for
from federation.service.key_ring import KeyRing
from federation.service.late_invites import LateInvites
from federation.service.media import Media
from federation.service.media_fetcher import MediaFetcher
from federation.service.media_store import MediaStore
from federation.service.membership import Membership
from federation.service.membership_requests import InvitePolicy, MembershipRequests
from federation.service.notary import Notary
from federation.service.outbox import Outbox
from federation.service.peer_connections import PeerConnections
from federation.service.peer_events import FederationEvents
from federation.service.peer_gate import PeerGate
from federation.service.profiles import Profiles
from federation.service.public_rooms import PublicRooms
from federation.service.request_authenticator import RequestAuthenticator
from federation.service.resolver import Resolver
from federation.service.room_graph import RoomGraph
from federation.service.room_requests import RoomRequests
from federation.service.room_summaries import RoomSummaries
from federation.service.rooms import Rooms
from federation.service.space_hierarchy import Spaces
from federation.service.ways_out import WaysOut, open_ways_out
from storage.database import Database
from storage.errors import LocalError
from storage.media_files import MediaFiles

PRUNED_EVERY: Final = 24 * 3600.0
"""Seconds between two prunings of what is remembered for a number of days."""


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
    # Rooms, and those who live in them.
    graph: RoomGraph
    membership: Membership
    media: Media
    profiles: Profiles
    directory: Directory
    public_rooms: PublicRooms
    spaces: Spaces
    rooms: Rooms
    # From others.
    gate: PeerGate
    authenticator: RequestAuthenticator
    notary: Notary
    room_requests: RoomRequests
    membership_requests: MembershipRequests
    inbox: Inbox
    audit: AuditTrail

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
    observer: HomeserverObserver,
    may_be_invited: InvitePolicy | None = None,
) -> AsyncIterator[Homeserver]:
    """It works from here on, and has finished what was begun when the context ends. The port is opened by
    others. `may_be_invited` is asked after it was seen that there is such a user. Raises LocalError when a
    file that the settings name cannot be used."""
    name, admits = settings.server_name, settings.policy.admits
    report = partial(_report, observer)

    def signer() -> Signer:
        key = own_keys().current
        return Signer(name, key.key_id, key.signing_key)

    async with contextlib.AsyncExitStack() as stack:
        audit = AuditTrail(database, now_ms=now_ms, report=observer.problem)
        audit.start()
        stack.push_async_callback(audit.close)
        ways = open_ways_out(
            stack,
            settings,
            database,
            own_keys,
            now_ms=now_ms,
            client_observer=observer,
            key_observer=observer,
            witness=audit,
        )
        client, key_ring = ways.client, ways.key_ring
        handshakes = Handshakes(client)
        outbox = Outbox(name, database, client, now_ms=now_ms, may_contact=admits, observer=observer)

        # Rooms.
        arrivals = Arrivals()
        graph = RoomGraph(
            name,
            database,
            keys=key_ring,
            peer_events=FederationEvents(client),
            signer=signer,
            now_ms=now_ms,
            on_commit=outbox.on_commit,
            queue=outbox,
            observer=observer,
            report=observer.kept_from,
            arrivals=arrivals,
        )
        directory = Directory(name, database, handshakes, graph, now_ms=now_ms)
        membership = Membership(
            name,
            graph,
            handshakes,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            local_alias=directory.resolve,
            arrivals=arrivals,
        )

        # Those who live in them.
        media = await _open_media(stack, settings, database, ways, now_ms)
        profiles = Profiles(name, database, client, graph, now_ms=now_ms, report=report)
        summaries = RoomSummaries(name, database, graph)
        public_rooms = PublicRooms(
            database, client, summaries, public_rooms_over_federation=settings.shows_public_rooms
        )
        spaces = Spaces(name, database, client, graph, summaries, now_ms=now_ms)
        stack.push_async_callback(spaces.close)
        news = EphemeralNews(
            name,
            database,
            now_ms=now_ms,
            seen_by=outbox.seen_by,
            woken=graph.stream.wake,
            report=report,
        )
        rooms = Rooms(
            name,
            database,
            graph=graph,
            membership=membership,
            profiles=profiles,
            directory=directory,
            media=media,
            outbox=outbox,
            news=news,
            now_ms=now_ms,
            report=report,
        )

        # From others.
        gate = PeerGate(settings.peer_limits)
        authenticator = RequestAuthenticator(
            name, key_ring, is_allowed=admits, heard=outbox.heard_from, gate=gate
        )
        notary = Notary(name, key_ring, own_keys, now_ms=now_ms, may_contact=admits)
        stack.push_async_callback(notary.close)
        late_invites = LateInvites(graph)
        requests = MembershipRequests(
            name,
            graph,
            key_ring,
            database,
            signer,
            now_ms=now_ms,
            may_be_invited=invites_for(profiles, may_be_invited),
            listener=news,
            signed=late_invites.signed,
            in_full=settings.members_in_full,
        )
        edus = IncomingEdus(database, graph, news)
        inbox = Inbox(database, graph, edus, audit=audit.transaction)

        await outbox.start()
        stack.push_async_callback(outbox.close)
        graph.stream.start()
        stack.push_async_callback(graph.close)
        stack.push_async_callback(late_invites.close)
        for part in (news, rooms):
            part.start()
            stack.push_async_callback(part.close)
        await profiles.start()
        stack.push_async_callback(profiles.close)
        prunings = (inbox.prune, edus.prune, rooms.prune, partial(audit.prune, settings.audit_days))
        for work in (media.keep_pruned(), _keep_pruned(prunings, observer)):
            stack.push_async_callback(_end, asyncio.create_task(work))
        yield Homeserver(
            settings,
            database,
            now_ms,
            ways.resolver,
            ways.connections,
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
            rooms,
            gate,
            authenticator,
            notary,
            RoomRequests(name, graph),
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
    ways: WaysOut,
    now_ms: Callable[[], int],
) -> Media:
    files = MediaFiles(settings.media_directory, reserve=settings.media.reserve)
    store = MediaStore(database, files, now_ms)
    fetcher = MediaFetcher(store, ways.client, ways.web, settings.media.max_remote_size)
    media = Media(settings.server_name, store, fetcher, settings.media)
    await media.start()
    stack.push_async_callback(media.close)
    return media


async def _keep_pruned(
    prunings: Sequence[Callable[[], Awaitable[int]]], observer: HomeserverObserver
) -> None:
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
