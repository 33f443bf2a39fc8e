"""Records joins, leaves, calls and tool lists in Postgres, and notifies the tasks that send them to rooms.

Records are committed before the client receives an answer. All records that arrive during one commit are
written together in the next.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from bridge.connectors.offices.cluster.process import OfficeProcess
from bridge.connectors.offices.protocol.office import Member, is_remote
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.protocol.tools import is_tools_content, tools_content
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.rooms import record_rows as records
from bridge.connectors.offices.rooms.archiving import OfficeArchiver
from bridge.connectors.offices.rooms.call_events import ToolCall
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.rooms.timeline import OfficeTimeline
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.offices import records as office_records
from storage.offices.records import NewRecord, insert_records

MAX_BATCH = 1_000
CLOSE_TIMEOUT = 10.0
"""Seconds for which closing waits for pending records to be written."""


class CallLogWriter:
    """Writes records in batches. `close` writes the pending ones first."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pending: list[tuple[NewRecord, asyncio.Future[None]]] = []
        self._background = BackgroundTasks(limit=1)

    async def write(self, record: NewRecord) -> None:
        """When this returns, the record has been committed. Raises `ConnectionLost`."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((record, written))
        if not self._background.is_full:
            self._background.spawn("call log of offices", self._write_all())
        await written

    async def close(self) -> None:
        await self._background.drain(CLOSE_TIMEOUT)
        await self._background.close()

    async def _write_all(self) -> None:
        while self._pending:
            batch = self._pending[:MAX_BATCH]
            del self._pending[:MAX_BATCH]
            await self._write(batch)

    async def _write(self, batch: Sequence[tuple[NewRecord, "asyncio.Future[None]"]]) -> None:
        try:
            # A single statement is its own transaction; BEGIN and COMMIT would cost two more round trips.
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
    """Records what happens in offices. When a `record_…` method returns, the record has been committed; rooms
    receive it later. Used between `start` and `close`."""

    def __init__(
        self, parts: RoomParts, secret_keys: Collection[str], *, report: Report,
        archive_after: float | None = None, monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._database = parts.database
        self._now_ms = parts.now_ms
        self._secret_keys = secret_keys
        self._report = report
        self._monotonic = monotonic
        self._writer = CallLogWriter(parts.database)
        self._timeline = OfficeTimeline(parts)
        self._archiver = OfficeArchiver(parts, archive_after)
        self.process = OfficeProcess(parts.database)
        self._tools: dict[tuple[str, str], Mapping[str, Any]] = {}
        # Called when the tools of a Computer have changed.
        self.on_tools_changed: Callable[[], None] = lambda: None
        # For other processes of the node: called when there are new records for rooms, and with the changed
        # tools of a Computer.
        self.on_written: Callable[[], None] = lambda: None
        self.publish_tools: Callable[[str, str, Mapping[str, Any]], None] = lambda office, name, content: None

    async def start(self) -> None:
        """Clean up after processes that have ended: record that their members have left and that their calls
        were interrupted."""
        await self.process.start()
        async with self.process.cleanup_lock():
            async with self._database.transaction(readonly=True) as connection:
                there = await office_records.fetch_present_members(connection)
                unanswered = await office_records.fetch_unanswered(connection)
            bodies = [*(one.body for one in there), *(body for *_, body in unanswered)]
            ended = await self.process.ended(map(records.process_of, bodies))
            for one in there:
                if records.process_of(one.body) in ended:
                    member = records.read_recorded_member(one)
                    await self.record_left(Member(member.sid, member.role, member.name, one.office_id))
            await self._interrupt(unanswered, ended)
        self._timeline.start()
        self._archiver.start()

    async def close(self) -> None:
        await self._writer.close()
        await self._archiver.close()
        await self._timeline.close()
        await self.process.close()

    async def record_interrupted(self, ended: Collection[str]) -> list[tuple[str, ToolCall]]:
        """Record that the unanswered calls of ended processes were interrupted. Return these calls with their
        offices, to one process only."""
        async with self.process.cleanup_lock():
            async with self._database.transaction(readonly=True) as connection:
                unanswered = await office_records.fetch_unanswered(connection)
            return await self._interrupt(unanswered, ended)

    async def _interrupt(
        self, unanswered: Collection[tuple[str, str, bytes]], ended: Collection[str]
    ) -> list[tuple[str, ToolCall]]:
        of_ended = [one for one in unanswered if records.process_of(one[2]) in ended]
        for office_id, call_id, _ in of_ended:
            await self._write(records.interrupted_record(office_id, call_id, self._now_ms()))
        return [(office_id, records.read_call(call_id, body, 0)) for office_id, call_id, body in of_ended]

    async def record_joined(self, member: Member, version: ProtocolVersion | None) -> None:
        record = records.member_record(records.JOINED, member, version, self._now_ms(), self.process.name)
        await self._write(record)
        self._archiver.wake()

    async def record_left(self, member: Member, reason: str = "") -> None:
        self._tools.pop((member.office_id, member.name), None)
        await self._write(records.member_record(records.LEFT, member, None, self._now_ms(), reason=reason))

    async def record_call(self, request: RelayRequest) -> str:
        """Return the id of the call in the log."""
        prefix = records.REMOTE_PREFIX if is_remote(request.caller) else ""
        call_id = request.call_id or f"{prefix}{secrets.token_hex(12)}"
        record = records.call_record(call_id, request, self._secret_keys, self._now_ms(), self.process.name)
        await self._write(record)
        return call_id

    async def record_answer(self, call_id: str, request: RelayRequest, answer: Mapping[str, Any], began: float) -> None:
        """A failure is only reported: the tool has done its work, so the caller must receive the answer."""
        took_ms = round((self._monotonic() - began) * 1_000)
        try:
            await self._write(records.answer_record(call_id, request, answer, took_ms, self._now_ms()))
        except Exception as error:
            self._report(f"Failed to record the answer to a call of {request.caller.name}.", error)

    async def record_tools(self, request: RelayRequest, answer: Mapping[str, Any]) -> None:
        """Record a Computer's list of tools if it has changed. Other answers are ignored."""
        if request.event.name != GET_TOOLS:
            return
        content = tools_content(answer)
        member = request.target
        key = member.office_id, member.name
        known = self._tools.get(key)
        if content is None or (known is not None and known["hash"] == content["hash"]):
            return
        self._tools[key] = content
        self.on_tools_changed()
        self.publish_tools(*key, content)
        await self._write(records.tools_record(member, content, self._now_ms()))

    def set_tools(self, office_id: str, name: str, content: object) -> None:
        """Store the tools of a Computer that another process has recorded."""
        if is_tools_content(content):
            assert isinstance(content, dict), "is_tools_content checks it"
            self._tools[office_id, name] = content
            self.on_tools_changed()

    def remove_tools(self, office_id: str, name: str) -> None:
        """Remove the tools of a Computer that has left another process."""
        self._tools.pop((office_id, name), None)

    def wake(self) -> None:
        """Another process has written records for rooms."""
        self._timeline.wake()

    def tools(self, office_id: str, name: str) -> tuple[str, ...] | None:
        """The names of a Computer's tools; None if they are not known yet."""
        content = self._tools.get((office_id, name))
        return None if content is None else tuple(tool["name"] for tool in content["tools"])

    async def wait_until_published(self, office_id: str) -> None:
        """Wait until the office's room shows the current members."""
        await self._timeline.wait_until_published(office_id)

    def monotonic(self) -> float:
        return self._monotonic()

    async def _write(self, record: office_records.NewRecord) -> None:
        await self._writer.write(record)
        self._timeline.wake()
        self.on_written()
