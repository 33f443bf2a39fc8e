"""Writes down who comes and goes and what is called, and has the rooms told.

Writes down what happens, before anybody is answered: all that came while one commit was under way goes
into the next one.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bridge.connectors.offices.cluster.process import OfficeProcess
from bridge.connectors.offices.protocol.office import Member, is_elsewhere
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.protocol.tools import is_tools_content, tools_content
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms import record_rows as records
from bridge.connectors.offices.rooms.archiving import Archiving
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.rooms.timeline import Recording
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.offices import records as office_records
from storage.offices.records import NewRecord, insert_records

MOST_AT_ONCE = 1_000
WRITTEN_WITHIN = 10.0
"""Seconds for which closing waits for the database."""


class Journal:
    """It is closed at the end; what was given before is written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[NewRecord, asyncio.Future[None]]] = []
        self._background = BackgroundTasks(limit=1)

    async def write(self, record: NewRecord) -> None:
        """When it returns, it has been committed. Raises `ConnectionLost`."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, written))
        if not self._background.is_full:
            self._background.spawn("journal of offices", self._write_all())
        await written

    async def close(self) -> None:
        await self._background.drain(WRITTEN_WITHIN)
        await self._background.close()

    async def _write_all(self) -> None:
        while self._waiting:
            batch = self._waiting[:MOST_AT_ONCE]
            del self._waiting[:MOST_AT_ONCE]
            await self._write(batch)

    async def _write(self, batch: Sequence[tuple[NewRecord, "asyncio.Future[None]"]]) -> None:
        try:
            # A single statement is a transaction: BEGIN and COMMIT would be two round trips more.
            async with self._database.autocommit() as connection:
                await insert_records(connection, [record for record, _ in batch])
        except Exception as error:
            for _, written in batch:
                if not written.done():
                    written.set_exception(error)
            return
        for _, written in batch:
            if not written.done():
                written.set_result(None)


GET_TOOLS = "client:get_tools"


class OfficeRecords:
    """What returns has been committed, but for what only the rooms are told. It runs between `start` and
    `close`."""

    def __init__(
        self, parts: RoomParts, secret_keys: Collection[str], *, report: Report,
        archive_after: float | None = None, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._database = parts.database
        self._now_ms = parts.now_ms
        self._secret_keys = secret_keys
        self._report = report
        self._monotonic = monotonic
        self._journal = Journal(parts.database)
        self._recording = Recording(parts)
        self._archiving = Archiving(parts, archive_after)
        self.process = OfficeProcess(parts.database)
        self._tools: dict[tuple[str, str], Mapping[str, Any]] = {}
        # Told when a Computer has said something new of what it can.
        self.learned: Callable[[], None] = lambda: None
        # For other processes of the node: that something is written down which rooms are to be told; and of
        # which Computer what is known.
        self.wrote: Callable[[], None] = lambda: None
        self.also_learned: Callable[[str, str, Mapping[str, Any]], None] = lambda office, name, said: None

    async def start(self) -> None:
        """Who was there when their process ended is there no more, and what was called there is answered by
        nobody any more."""
        await self.process.start()
        async with self.process.beginning():
            async with self._database.transaction(readonly=True) as connection:
                there = await office_records.fetch_present_members(connection)
                unanswered = await office_records.fetch_unanswered(connection)
            bodies = [*(one.body for one in there), *(body for *_, body in unanswered)]
            ended = await self.process.ended(map(records.process_of, bodies))
            for one in there:
                if records.process_of(one.body) in ended:
                    seat = records.read_seated(one)
                    await self.left(Member(seat.sid, seat.role, seat.name, one.office_id))
            await self._interrupt(unanswered, ended)
        self._recording.start()
        self._archiving.start()

    async def close(self) -> None:
        await self._journal.close()
        await self._archiving.close()
        await self._recording.close()
        await self.process.close()

    async def interrupted(self, ended: Collection[str]) -> list[tuple[str, ToolCall]]:
        """The calls that these processes had under way, which have ended, with their offices: nobody waits
        for their answers. They are given to one process."""
        async with self.process.beginning():
            async with self._database.transaction(readonly=True) as connection:
                unanswered = await office_records.fetch_unanswered(connection)
            return await self._interrupt(unanswered, ended)

    async def _interrupt(
        self, unanswered: Collection[tuple[str, str, bytes]], ended: Collection[str]
    ) -> list[tuple[str, ToolCall]]:
        of_ended = [one for one in unanswered if records.process_of(one[2]) in ended]
        for office_id, call_id, _ in of_ended:
            await self._write(records.of_interrupted(office_id, call_id, self._now_ms()))
        return [(office_id, records.read_call(call_id, body, 0)) for office_id, call_id, body in of_ended]

    async def joined(self, member: Member, version: ProtocolVersion | None) -> None:
        record = records.of_member(records.JOINED, member, version, self._now_ms(), self.process.name)
        await self._write(record)
        self._archiving.wake()

    async def left(self, member: Member, reason: str = "") -> None:
        self._tools.pop((member.office_id, member.name), None)
        await self._write(records.of_member(records.LEFT, member, None, self._now_ms(), reason=reason))

    async def called(self, relay: Relay) -> str:
        """The id by which it is known from now on."""
        elsewhere = records.ELSEWHERE if is_elsewhere(relay.caller) else ""
        call_id = relay.call_id or f"{elsewhere}{secrets.token_hex(12)}"
        record = records.of_call(call_id, relay, self._secret_keys, self._now_ms(), self.process.name)
        await self._write(record)
        return call_id

    async def answered(self, call_id: str, relay: Relay, answer: Mapping[str, Any], began: float) -> None:
        """What cannot be written down is answered all the same: the tool has done its work."""
        took_ms = round((self._monotonic() - began) * 1_000)
        try:
            await self._write(records.of_answer(call_id, relay, answer, took_ms, self._now_ms()))
        except Exception as error:
            self._report(f"The answer to a call of {relay.caller.name} could not be written down.", error)

    async def looked(self, relay: Relay, answer: Mapping[str, Any]) -> None:
        """What a Computer says that it can, where it is something new."""
        if relay.event.name != GET_TOOLS:
            return
        content = tools_content(answer)
        member = relay.target
        key = member.office_id, member.name
        known = self._tools.get(key)
        if content is None or (known is not None and known["hash"] == content["hash"]):
            return
        self._tools[key] = content
        self.learned()
        self.also_learned(*key, content)
        await self._write(records.of_tools(member, content, self._now_ms()))

    def learn(self, office_id: str, name: str, content: object) -> None:
        """As another process says, which has written it down."""
        if is_tools_content(content):
            assert isinstance(content, dict), "it has the form"
            self._tools[office_id, name] = content
            self.learned()

    def forget(self, office_id: str, name: str) -> None:
        """What a member can that has left another process."""
        self._tools.pop((office_id, name), None)

    def wake(self) -> None:
        """Another process has written something down that rooms are to be told."""
        self._recording.wake()

    def tools(self, office_id: str, name: str) -> tuple[str, ...] | None:
        """The names of what a Computer can; None before it was asked."""
        content = self._tools.get((office_id, name))
        return None if content is None else tuple(tool["name"] for tool in content["tools"])

    async def until_told(self, office_id: str) -> None:
        """Until its room knows who has come and who has gone."""
        await self._recording.until_told(office_id)

    def began(self) -> float:
        return self._monotonic()

    async def _write(self, record: office_records.NewRecord) -> None:
        await self._journal.write(record)
        self._recording.wake()
        self.wrote()
