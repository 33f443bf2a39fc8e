"""A guest of a homeserver: all its parts, put together once.

All that comes from the homeserver, put together: what is kept, who is woken, what is forgotten when.
"""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.homeserver.availability_watch import Watch
from appservice.homeserver.client import HomeserverClient, open_session
from appservice.intake.intake import Intake
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.missed_events import MissedEvents
from appservice.intake.stream import IntakeStream
from appservice.intake.transaction import Told, Transaction
from appservice.local_users.local_users import AppserviceUsers
from appservice.local_users.parts import Parts
from appservice.observer import AppserviceObserver
from appservice.people.ghosts import GhostUsers
from appservice.registration.namespaces import Namespaces
from appservice.registration.registration import Registration, Wanted
from federation.transactions.edu_dispatcher import REMOTE_TYPING_TIMEOUT_MS, EduDispatcher, TypingUsers
from federation.transactions.edus import ToDevice, UserPresence
from storage.concurrency import BackgroundTasks
from storage.database import Database

PRUNED_EVERY: Final = 3_600.0
"""Seconds. A homeserver sends all that happens in its rooms, and each of it is kept for a week."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """`intake` is for the port, `stream` and `news` are for the side."""

    intake: Intake
    stream: IntakeStream
    news: EduDispatcher


@asynccontextmanager
async def open_incoming(
    registration: str,
    namespaces: Namespaces,
    database: Database,
    *,
    now_ms: Callable[[], int],
    report: Callable[[str], None] = lambda problem: None,
) -> AsyncIterator[Incoming]:
    """`registration` is the id of ours. `report` is given a sentence for the operator."""
    async with AsyncExitStack() as stack:
        stream = IntakeStream(database)
        stream.start()
        stack.push_async_callback(stream.close)
        news = EduDispatcher(
            namespaces.domain, database, now_ms=now_ms, wake_readers=stream.publish, report=report
        )
        stack.push_async_callback(news.close)
        intake = Intake(
            registration,
            database,
            is_ours=namespaces.owns_user,
            tell=partial(pass_on, news),
            woken=stream.publish,
            report=report,
        )
        background = BackgroundTasks()
        stack.push_async_callback(background.close)
        background.supervise("expired events of the homeserver", intake.prune, every=PRUNED_EVERY)
        yield Incoming(intake, stream, news)


def pass_on(news: EduDispatcher, said: Told | ToDevice) -> None:
    """To those who listen. What a homeserver tells its application services is whole: who is not among those
    who type has stopped."""
    match said:
        case TypingUsers():
            for user in set(news.typing_users(said.room_id)) - set(said.user_ids):
                news.set_typing(said.room_id, user, typing=False, timeout_ms=0)
            for user in said.user_ids:
                news.set_typing(said.room_id, user, typing=True, timeout_ms=REMOTE_TYPING_TIMEOUT_MS)
        case UserPresence():
            news.set_presence(said)
        case _:
            news.notify(said)


@dataclass(frozen=True, slots=True)
class Appservice:
    """The parts that others have to do with. `intake`, `missed` and `watch` are for the port, `rooms` is the
    side."""

    registration: Registration
    namespaces: Namespaces
    database: Database
    client: HomeserverClient
    watch: Watch
    ghosts: GhostUsers
    known: KnownRooms
    incoming: Incoming
    intake: "WatchedIntake"
    missed: MissedEvents
    rooms: AppserviceUsers


@asynccontextmanager
async def open_appservice(
    url: str,
    registration: Registration,
    wanted: Wanted,
    database: Database,
    *,
    now_ms: Callable[[], int],
    observer: AppserviceObserver,
) -> AsyncIterator[Appservice]:
    """`url` is where clients reach the homeserver. It is asked nothing here; what it sends can be taken in.
    `watch` has to be started by whoever has seen that the homeserver is there."""
    namespaces = wanted.namespaces

    def report(sentence: str) -> None:
        observer.problem(sentence, None)

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        watch = Watch(session, url, registration, wanted, observer)
        stack.push_async_callback(watch.close)
        client = HomeserverClient(session, url, registration.secrets.as_token, observer=observer, watch=watch)

        async def made(user: str) -> None:
            # Who has just come into being is in no room.
            await known.adopt(user, [])

        ghosts = GhostUsers(client, namespaces, database, now_ms=now_ms, made=made)
        stack.push_async_callback(ghosts.close)

        async def fetch(room_id: str, user: str) -> list[Any]:
            return await client.ask_list(Path.v3.rooms[room_id].state, user=user)

        async def fetch_joined(user: str) -> list[str]:
            await ghosts.ensure_user(user)
            said = await client.ask(Method.GET, Path.v3.joined_rooms, user=user)
            listed = said.get("joined_rooms")
            return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []

        known = KnownRooms(
            database,
            fetch,
            registration=registration.id,
            is_ours=namespaces.owns_user,
            fetch_joined=fetch_joined,
            node_user=namespaces.node_user,
        )
        stack.push_async_callback(known.close)
        incoming = await stack.enter_async_context(
            open_incoming(registration.id, namespaces, database, now_ms=now_ms, report=report)
        )
        rooms = AppserviceUsers(
            Parts(
                server_name=namespaces.domain,
                database=database,
                client=client,
                namespaces=namespaces,
                ghosts=ghosts,
                rooms=known,
                news=incoming.news,
                stream=incoming.stream,
                now_ms=now_ms,
                report=report,
            )
        )
        rooms.start()
        stack.push_async_callback(rooms.close)
        missed = MissedEvents(
            client,
            known,
            database,
            incoming.intake.take_in,
            is_ours=namespaces.owns_user,
            now_ms=now_ms,
            report=report,
        )
        watch.tell_when_back(missed.suspect)
        missed.start()
        stack.push_async_callback(missed.close)
        intake = WatchedIntake(incoming.intake, watch, missed, observer)
        yield Appservice(
            registration, namespaces, database, client, watch, ghosts, known, incoming, intake, missed, rooms
        )


class WatchedIntake:
    """Notes that the homeserver has sent something, and has what it did not send fetched before it."""

    def __init__(
        self, intake: Intake, watch: Watch, missed: MissedEvents, observer: AppserviceObserver
    ) -> None:
        self._intake = intake
        self._watch = watch
        self._missed = missed
        self._observer = observer

    async def take_in(self, transaction_id: str, transaction: Transaction) -> bool:
        began = time.monotonic()
        self._watch.sent_something()
        await self._missed.before(transaction)
        is_new = await self._intake.take_in(transaction_id, transaction)
        self._observer.taken_in(transaction, is_new=is_new, seconds=time.monotonic() - began)
        return is_new
