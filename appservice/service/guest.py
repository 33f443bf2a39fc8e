"""A guest of a homeserver: all its parts, put together once."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from mautrix.api import Method, Path

from appservice.namespaces import Namespaces
from appservice.registration import Registration, Wanted
from appservice.service.ghosts import GhostUsers
from appservice.service.guest_rooms import GuestRooms
from appservice.service.homeserver_client import ClientObserver, HomeserverClient, open_session
from appservice.service.homeserver_watch import Watch, WatchObserver
from appservice.service.incoming import Incoming, open_incoming
from appservice.service.intake import Intake
from appservice.service.known_rooms import KnownRooms
from appservice.service.living.parts import Parts
from appservice.service.missed_events import MissedEvents
from appservice.transaction import Transaction
from storage.database import Database


class GuestObserver(ClientObserver, WatchObserver, Protocol):
    """Implemented by whoever counts and logs. Called from the event loop; it must return at once."""

    def taken_in(self, transaction: Transaction, *, is_new: bool, seconds: float) -> None:
        """A transaction of the homeserver has been committed, or had been before."""

    def problem(self, sentence: str, error: BaseException | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Guest:
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
    rooms: GuestRooms


@asynccontextmanager
async def open_guest(
    url: str,
    registration: Registration,
    wanted: Wanted,
    database: Database,
    *,
    now_ms: Callable[[], int],
    observer: GuestObserver,
) -> AsyncIterator[Guest]:
    """`url` is where clients reach the homeserver. It is asked nothing here; what it sends can be taken in.
    `watch` has to be started by whoever has seen that the homeserver is there."""
    namespaces = wanted.namespaces

    def report(sentence: str) -> None:
        observer.problem(sentence, None)

    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(open_session())
        watch = Watch(session, url, registration, wanted, observer)
        stack.push_async_callback(watch.close)
        client = HomeserverClient(session, url, registration.secrets.as_token, observer=observer, gate=watch)

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
        rooms = GuestRooms(
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
        yield Guest(
            registration, namespaces, database, client, watch, ghosts, known, incoming, intake, missed, rooms
        )


class WatchedIntake:
    """Satisfies `appservice.wire.services.TakesIn`, tells that something came, and has what did not come
    fetched before it."""

    def __init__(self, intake: Intake, watch: Watch, missed: MissedEvents, observer: GuestObserver) -> None:
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
