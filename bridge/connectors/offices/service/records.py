"""Writes down who comes and goes and what is called, and has the rooms told."""

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bridge.connectors.offices.office import AGENT, COMPUTER, Member, is_elsewhere
from bridge.connectors.offices.protocol_version import ProtocolVersion
from bridge.connectors.offices.relay import Relay
from bridge.connectors.offices.service import record_rows as records
from bridge.connectors.offices.service.archiving import Archiving
from bridge.connectors.offices.service.journal import Journal
from bridge.connectors.offices.service.office_process import OfficeProcess
from bridge.connectors.offices.service.recording import Recording, RoomParts
from bridge.connectors.offices.tool_list import tools_content
from bridge.service.session import Report
from storage import office_records

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
        self._process = OfficeProcess(parts.database)
        self._tools: dict[tuple[str, str], Mapping[str, Any]] = {}
        # Told when a Computer has said something new of what it can.
        self.learned: Callable[[], None] = lambda: None

    async def start(self) -> None:
        """Who was there when their process ended is there no more, and what was called there is answered by
        nobody any more."""
        await self._process.start()
        async with self._process.beginning():
            async with self._database.transaction(readonly=True) as connection:
                there = await office_records.fetch_there(connection)
                unanswered = await office_records.fetch_unanswered(connection)
            bodies = [*(body for _, body in there), *(body for *_, body in unanswered)]
            ended = await self._process.ended(map(records.process_of, bodies))
            for office_id, body in there:
                said = records.read_body(body)
                role = AGENT if said["role"] == AGENT else COMPUTER
                if records.process_of(body) in ended:
                    await self.left(Member("", role, said["name"], office_id))
            for office_id, call_id, body in unanswered:
                if records.process_of(body) in ended:
                    await self._write(records.of_interrupted(office_id, call_id, self._now_ms()))
        self._recording.start()
        self._archiving.start()

    async def close(self) -> None:
        await self._journal.close()
        await self._archiving.close()
        await self._recording.close()
        await self._process.close()

    async def joined(self, member: Member, version: ProtocolVersion | None) -> None:
        record = records.of_member(records.JOINED, member, version, self._now_ms(), self._process.name)
        await self._write(record)
        self._archiving.wake()

    async def left(self, member: Member, reason: str = "") -> None:
        self._tools.pop((member.office_id, member.name), None)
        await self._write(records.of_member(records.LEFT, member, None, self._now_ms(), reason=reason))

    async def called(self, relay: Relay) -> str:
        """The id by which it is known from now on."""
        elsewhere = records.ELSEWHERE if is_elsewhere(relay.caller) else ""
        call_id = relay.call_id or f"{elsewhere}{secrets.token_hex(12)}"
        record = records.of_call(call_id, relay, self._secret_keys, self._now_ms(), self._process.name)
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
        await self._write(records.of_tools(member, content, self._now_ms()))

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
