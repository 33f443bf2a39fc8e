"""An intake and its stream, on the test's database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from appservice.intake.intake import Intake
from appservice.intake.stream import IntakeStream
from appservice.intake.transaction import read
from appservice.registration.namespaces import Namespaces
from federation.events.room_event import StreamedEvent
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.appservice.events import transaction

OURS = Namespaces("their.server", "kitchen.local", "_agent_")


@dataclass
class IntakeHarness:
    database: Database
    stream: IntakeStream
    intake: Intake
    told: list[Any] = field(default_factory=list)
    reported: list[str] = field(default_factory=list)

    async def receive(self, transaction_id: str, *events: Any, **more: Any) -> bool:
        return await self.intake.receive(transaction_id, read(transaction(*events, **more)))

    async def all(self) -> list[str]:
        """The event ids in the stream, in order."""
        return [entry.event.event_id for entry in await self.entries()]

    async def entries(self) -> list[StreamedEvent]:
        return list((await self.stream.read(0, 10_000)).entries)


@asynccontextmanager
async def intake_on(database: Database, address: DatabaseAddress) -> AsyncIterator[IntakeHarness]:
    stream = IntakeStream(database)
    told: list[Any] = []
    reported: list[str] = []
    intake = Intake(
        "palaver",
        database,
        is_ours=OURS.owns_user,
        publish=told.append,
        on_events=stream.publish,
        report=reported.append,
    )
    stream.start()
    try:
        yield IntakeHarness(database, stream, intake, told, reported)
    finally:
        await stream.close()
