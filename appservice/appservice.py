"""Puts the application service together: its client, its intake, its ghosts and their operations in rooms."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.homeserver.availability_monitor import AvailabilityMonitor
from appservice.homeserver.client import HomeserverClient, open_session
from appservice.intake.intake import Intake
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.missed_events import MissedEvents
from appservice.intake.stream import IntakeStream
from appservice.intake.transaction import EphemeralEvent, Transaction
from appservice.local_users.local_users import AppserviceUsers
from appservice.local_users.parts import Parts
from appservice.observer import AppserviceObserver
from appservice.people.ghosts import GhostUsers
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import Registration, RegistrationSettings
from federation.transactions.edu_dispatcher import REMOTE_TYPING_TIMEOUT_MS, EduDispatcher, TypingUsers
from federation.transactions.edus import ToDevice, UserPresence
from storage.concurrency import BackgroundTasks
from storage.database import Database

PRUNED_EVERY: Final = 3_600.0
"""Seconds between two prunings. The homeserver pushes every event of its rooms, and each is stored for a
week."""


@dataclass(frozen=True, slots=True)
class IncomingTraffic:
    """What receives the homeserver's transactions. The HTTP endpoints use `intake`; the local users read
    `stream` and `ephemeral`."""

    intake: Intake
    stream: IntakeStream
    ephemeral: EduDispatcher


@asynccontextmanager
async def open_incoming_traffic(
    registration: str,
    namespaces: Namespaces,
    database: Database,
    *,
    now_ms: Callable[[], int],
    report: Callable[[str], None] = lambda problem: None,
) -> AsyncIterator[IncomingTraffic]:
    """`registration` is the id of this node's registration. `report` receives a sentence for the operator."""
    async with AsyncExitStack() as stack:
        stream = IntakeStream(database)
        stream.start()
        stack.push_async_callback(stream.close)
        ephemeral = EduDispatcher(
            namespaces.domain, database, now_ms=now_ms, wake_readers=stream.publish, report=report
        )
        stack.push_async_callback(ephemeral.close)
        intake = Intake(
            registration,
            database,
            is_ours=namespaces.owns_user,
            publish=partial(publish_ephemeral, ephemeral),
            on_events=stream.publish,
            report=report,
        )
        background = BackgroundTasks()
        stack.push_async_callback(background.close)
        background.supervise("expired events of the homeserver", intake.prune, every=PRUNED_EVERY)
        yield IncomingTraffic(intake, stream, ephemeral)


def publish_ephemeral(ephemeral: EduDispatcher, received: EphemeralEvent | ToDevice) -> None:
    """Pass ephemeral data to its listeners. The homeserver pushes the complete list of typing users of a
    room, so a user who is missing from it has stopped typing."""
    match received:
        case TypingUsers():
            for user in set(ephemeral.typing_users(received.room_id)) - set(received.user_ids):
                ephemeral.set_typing(received.room_id, user, typing=False, timeout_ms=0)
            for user in received.user_ids:
                ephemeral.set_typing(received.room_id, user, typing=True, timeout_ms=REMOTE_TYPING_TIMEOUT_MS)
        case UserPresence():
            ephemeral.set_presence(received)
        case _:
            ephemeral.notify(received)


@dataclass(frozen=True, slots=True)
class Appservice:
    """The parts that other packages use. The HTTP endpoints use `intake`, `missed_events` and `monitor`;
    `local_users` is the Matrix backend."""

    registration: Registration
    namespaces: Namespaces
    database: Database
    client: HomeserverClient
    monitor: AvailabilityMonitor
    ghosts: GhostUsers
    known_rooms: KnownRooms
    incoming: IncomingTraffic
    intake: "MonitoredIntake"
    missed_events: MissedEvents
    local_users: AppserviceUsers


@asynccontextmanager
async def open_appservice(
    url: str,
    registration: Registration,
    wanted: RegistrationSettings,
    database: Database,
    *,
    now_ms: Callable[[], int],
    observer: AppserviceObserver,
) -> AsyncIterator[Appservice]:
    """`url` is where clients reach the homeserver. This function makes no request to it; transactions can be
    received immediately. The caller starts `monitor` once it has seen that the homeserver is available."""
    namespaces = wanted.namespaces

    def report(sentence: str) -> None:
        observer.problem(sentence, None)

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        monitor = AvailabilityMonitor(session, url, registration, wanted, observer)
        stack.push_async_callback(monitor.close)
        client = HomeserverClient(session, url, registration.secrets.as_token, observer=observer, monitor=monitor)

        async def record_created(user: str) -> None:
            # A newly created user is in no room.
            await known_rooms.set_joined_rooms(user, [])

        ghosts = GhostUsers(client, namespaces, database, now_ms=now_ms, on_created=record_created)
        stack.push_async_callback(ghosts.close)

        async def fetch(room_id: str, user: str) -> list[Any]:
            return await client.request_list(Path.v3.rooms[room_id].state, user=user)

        async def fetch_joined(user: str) -> list[str]:
            await ghosts.ensure_user(user)
            response = await client.request(Method.GET, Path.v3.joined_rooms, user=user)
            listed = response.get("joined_rooms")
            return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []

        known_rooms = KnownRooms(
            database,
            fetch,
            registration=registration.id,
            is_ours=namespaces.owns_user,
            fetch_joined=fetch_joined,
            node_user=namespaces.node_user,
        )
        stack.push_async_callback(known_rooms.close)
        incoming = await stack.enter_async_context(
            open_incoming_traffic(registration.id, namespaces, database, now_ms=now_ms, report=report)
        )
        local_users = AppserviceUsers(
            Parts(
                server_name=namespaces.domain,
                database=database,
                client=client,
                namespaces=namespaces,
                ghosts=ghosts,
                rooms=known_rooms,
                ephemeral=incoming.ephemeral,
                stream=incoming.stream,
                now_ms=now_ms,
                report=report,
            )
        )
        local_users.start()
        stack.push_async_callback(local_users.close)
        missed = MissedEvents(
            client,
            known_rooms,
            database,
            incoming.intake.receive,
            is_ours=namespaces.owns_user,
            now_ms=now_ms,
            report=report,
        )
        monitor.on_recovery(missed.suspect)
        missed.start()
        stack.push_async_callback(missed.close)
        intake = MonitoredIntake(incoming.intake, monitor, missed, observer)
        yield Appservice(
            registration,
            namespaces,
            database,
            client,
            monitor,
            ghosts,
            known_rooms,
            incoming,
            intake,
            missed,
            local_users,
        )


class MonitoredIntake:
    """Receives transactions, notes that the homeserver is sending, and first fetches the events that it
    failed to push."""

    def __init__(
        self, intake: Intake, monitor: AvailabilityMonitor, missed_events: MissedEvents, observer: AppserviceObserver
    ) -> None:
        self._intake = intake
        self._monitor = monitor
        self._missed_events = missed_events
        self._observer = observer

    async def receive(self, transaction_id: str, transaction: Transaction) -> bool:
        began = time.monotonic()
        self._monitor.traffic_received()
        await self._missed_events.fetch_before(transaction)
        is_new = await self._intake.receive(transaction_id, transaction)
        self._observer.transaction_received(transaction, is_new=is_new, seconds=time.monotonic() - began)
        return is_new
