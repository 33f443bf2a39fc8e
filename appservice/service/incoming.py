"""All that comes from the homeserver, put together: what is kept, who is woken, what is forgotten when."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from appservice.namespaces import Namespaces
from appservice.service.intake import Intake
from appservice.service.stream import IntakeStream
from appservice.transaction import Told
from federation.edu import PresenceOfUser, ToDevice
from federation.ephemeral import TypingNow
from federation.service.consumer_lease import ConsumerLease
from federation.service.ephemeral import TYPING_BELIEVED_MS, EphemeralNews
from storage.connecting import ConnectionLost
from storage.database import Database

PRUNED_EVERY: Final = 3_600.0
"""Seconds. A homeserver sends all that happens in its rooms, and each of it is kept for a week."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """`intake` is for the port, `stream` and `news` are for the side."""

    intake: Intake
    stream: IntakeStream
    news: EphemeralNews


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
        lease = ConsumerLease(database.address)
        stack.push_async_callback(lease.close)
        stream = IntakeStream(database, lease)
        stream.start()
        stack.push_async_callback(stream.close)
        news = EphemeralNews(namespaces.domain, database, now_ms=now_ms, woken=stream.wake, report=report)
        news.start()
        stack.push_async_callback(news.close)
        intake = Intake(
            registration,
            database,
            is_ours=namespaces.owns_user,
            tell=partial(pass_on, news),
            woken=stream.wake,
            report=report,
        )
        stack.push_async_callback(_end, asyncio.create_task(_keep_pruned(intake, report)))
        yield Incoming(intake, stream, news)


def pass_on(news: EphemeralNews, said: Told | ToDevice) -> None:
    """To those who listen. What a homeserver tells its application services is whole: who is not among those
    who type has stopped."""
    match said:
        case TypingNow():
            for user in set(news.typing_in(said.room_id)) - set(said.user_ids):
                news.type_here(said.room_id, user, typing=False, lasts_ms=0)
            for user in said.user_ids:
                news.type_here(said.room_id, user, typing=True, lasts_ms=TYPING_BELIEVED_MS)
        case PresenceOfUser():
            news.be_present(said)
        case _:
            news.tell(said)


async def _keep_pruned(intake: Intake, report: Callable[[str], None]) -> None:
    """Beginning with the start."""
    while True:
        try:
            await intake.prune()
        except ConnectionLost as lost:
            # Later is soon enough: nothing depends on it but the room on the disk.
            report(f"What is out of date could not be forgotten: {lost}")
        await asyncio.sleep(PRUNED_EVERY)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
