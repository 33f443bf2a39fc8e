"""Sends the records of offices to their rooms as messages and state: in order, once, by one process of the
node.

An event's transaction id is derived from the position of its record, so that sending it again after a kill
gives the same event. In a busy office, several calls are combined into one message.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.federated.shared_room import is_active_agent, seat_holder
from bridge.connectors.offices.protocol.office import AGENT
from bridge.connectors.offices.protocol.tools import outcome_of, read_result
from bridge.connectors.offices.protocol.versions import parse_version
from bridge.connectors.offices.rooms import record_rows as records
from bridge.connectors.offices.rooms.call_events import (
    MAX_IN_DIGEST,
    DigestEntry,
    ToolCall,
    call_content,
    digest_content,
    file_content,
    result_content,
)
from bridge.connectors.offices.rooms.office_room import (
    EMPTY,
    MEMBER,
    SEAT,
    TOOLS,
    member_address,
    member_content,
    seat_content,
    state_key,
)
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.matrix.ghost import NoGhost
from bridge.people.message import MESSAGE
from bridge.people.texts.text import Kind, Text, content_of
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.offices import records as office_records
from storage.offices.records import NOT_ACCEPTED, RecordRow

NAME: Final = "offices"
BATCH_SIZE: Final = 500
MAX_SINGLE_RECORDS: Final = 40
"""If an office has more pending records than this, its calls are combined."""
RETRY_DELAY: Final = 2.0
POLL_INTERVAL: Final = 5.0
BATCH_INTERVAL: Final = 0.25
"""Seconds between two rounds while there are records: those that arrive in quick succession are sent
together, and the load on the database stays low."""
PUBLISHED_POLL_INTERVAL: Final = 0.5
"""Seconds between two checks whether another process has sent the records."""
RETENTION_MS: Final = 90 * 24 * 3_600 * 1_000
PRUNE_BATCH: Final = 1_000
MAX_ROOMS: Final = 10_000


class _RetryLater(Exception):
    """The homeserver fails temporarily; the records stay pending."""


class OfficeTimeline:
    """Sends records to rooms between `start` and `close`. Call `wake` when there are new ones."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._node_id = parts.settings.node_id
        self._background = BackgroundTasks()
        self._woken = asyncio.Event()
        self._rooms: LRUCache[str, str] = LRUCache(MAX_ROOMS)
        # Set when `wait_until_published` is waiting.
        self._flush_requested = asyncio.Event()
        # Set, and replaced by a new event, when records have been sent.
        self._progress = asyncio.Event()

    def start(self) -> None:
        self._background.supervise("timeline of offices", self._run)

    async def close(self) -> None:
        await self._background.close()

    def wake(self) -> None:
        self._woken.set()

    async def wait_until_published(self, office_id: str) -> None:
        """Wait until the room shows the current members, whichever process sends them."""
        while True:
            progress = self._progress
            async with self._parts.database.transaction(readonly=True) as connection:
                if not await office_records.has_unsent_membership_changes(connection, office_id):
                    return
            self._flush_requested.set()
            await _wait(progress, PUBLISHED_POLL_INTERVAL)

    # -- internals --

    async def _run(self) -> None:
        """Only the process with the lease does the work."""
        async with self._parts.database.session.lease(NAME):
            while True:
                await self._run_once()

    async def _run_once(self) -> None:
        self._woken.clear()
        try:
            count = await self._publish_batch()
            if not count:
                await self._prune()
        except (ConnectionLost, _RetryLater) as lost:
            self._parts.report("Sending to the rooms of offices is delayed.", lost)
            await asyncio.sleep(RETRY_DELAY)
            return
        except Exception as error:
            self._parts.report("Failed to send to the rooms of offices.", error)
            await asyncio.sleep(RETRY_DELAY)
            return
        if not count:
            await _wait(self._woken, POLL_INTERVAL)
        elif count < BATCH_SIZE:
            await _wait(self._flush_requested, BATCH_INTERVAL)
            self._flush_requested.clear()

    async def _publish_batch(self) -> int:
        """Send pending records and return how many there were. Which records share a message is decided, and
        stored, before any is sent."""
        async with self._parts.database.transaction() as connection:
            pending = await office_records.fetch_unsent(connection, BATCH_SIZE)
            elsewhere = [row.position for row in pending if is_published_elsewhere(row)]
            if elsewhere:
                await office_records.mark_sent(connection, elsewhere, NOT_ACCEPTED)
            rows = [row for row in pending if not is_published_elsewhere(row)]
            message_of = group_into_messages([row for row in rows if row.message_position is None])
            if message_of:
                await office_records.assign_messages(connection, message_of)
        by_office: dict[str, dict[int, list[RecordRow]]] = {}
        for row in rows:
            message = row.message_position if row.message_position is not None else message_of[row.position]
            by_office.setdefault(row.office_id, {}).setdefault(message, []).append(row)
        for office_id, messages in by_office.items():
            await self._publish_office(office_id, list(messages.values()))
        return len(pending)

    async def _publish_office(self, office_id: str, messages: Sequence[Sequence[RecordRow]]) -> None:
        try:
            room_id = await self._room(office_id)
        except MatrixError as refused:
            if refused.status >= 500:
                raise _RetryLater(refused.text) from refused
            self._parts.report(f"The room of the office {office_id} is not available.", refused)
            await self._set_published([row.position for rows in messages for row in rows], NOT_ACCEPTED)
            return
        for rows in messages:
            await self._publish_message(room_id, rows)

    async def _publish_message(self, room_id: str, rows: Sequence[RecordRow]) -> None:
        """If the room refuses an event, it is not sent again; if the homeserver fails, it is."""
        try:
            event_id = await (
                self._publish(room_id, rows[0]) if len(rows) == 1 else self._publish_digest(room_id, rows)
            )
        except MatrixError as refused:
            if refused.status >= 500:
                raise _RetryLater(refused.text) from refused
            self._parts.report(f"The room of the office {rows[0].office_id} refused an event.", refused)
            event_id = NOT_ACCEPTED
        except ConnectionLost:
            raise
        except Exception as error:
            # An unexpected error in one record must not hold up all that follow.
            self._parts.report(f"Failed to send a record of the office {rows[0].office_id}.", error)
            event_id = NOT_ACCEPTED
        await self._set_published([row.position for row in rows], event_id)

    async def _publish_digest(self, room_id: str, rows: Sequence[RecordRow]) -> str:
        answers = {row.call_id: row for row in rows if row.kind == records.ANSWERED}
        entries = [
            DigestEntry(_call(row), *_outcome(answers[row.call_id])) for row in rows if row.kind == records.CALLED
        ]
        name = f"office/{rows[0].position}/digest"
        return await self._send(room_id, self._names.node_user, digest_content(entries), name)

    async def _publish(self, room_id: str, row: RecordRow) -> str:
        match row.kind:
            case records.JOINED:
                return await self._joined(room_id, row)
            case records.LEFT:
                return await self._left(room_id, row)
            case records.TOOLS:
                body = records.read_body(row.body)
                return await self._tools(room_id, self._address(row.office_id, body["name"]), body["tools"])
            case records.CALLED:
                call = _call(row)
                # A member may have the same name as the requester of a direct call.
                sender = self._names.node_user
                if not call.is_direct:
                    sender = await self._sender(room_id, row.office_id, call.agent)
                return await self._send(room_id, sender, call_content(call), f"office/{row.position}")
            case _:
                return await self._answered(room_id, row)

    async def _joined(self, room_id: str, row: RecordRow) -> str:
        role, name, version = records.member_of_record(row)
        address = self._address(row.office_id, name)
        parsed = None if version is None else parse_version(version)
        ghost = self._ghost(address)
        if ghost is None:
            content = member_content(role, name, self._node_id, parsed, row.at_ms)
            return await self._set(room_id, self._names.node_user, MEMBER, content, state_key(address))
        await self._parts.ghosts.join(room_id, ghost)
        content = member_content(role, name, self._node_id, parsed, row.at_ms, self._parts.public_key)
        event_id = await self._set(room_id, ghost, MEMBER, content, ghost)
        if role == AGENT and await self._is_seat_free(room_id, ghost):
            await self._set(room_id, ghost, SEAT, seat_content(address, ghost, row.at_ms), "")
        return event_id

    async def _is_seat_free(self, room_id: str, ghost: str) -> bool:
        """Whether no other Agent holds the seat."""
        backend = self._parts.backend
        other = seat_holder(await backend.state_event(room_id, SEAT), {ghost, self._names.node_user})
        if other is None:
            return True
        member_event = await backend.state_event(room_id, MEMBER, other)
        return not is_active_agent(member_event, await backend.membership(room_id, other))

    async def _left(self, room_id: str, row: RecordRow) -> str:
        role, name, _ = records.member_of_record(row)
        reason = records.read_body(row.body).get("reason")
        if reason:
            content = content_of(Text.of(f"{name} was removed from the office: {reason}."), Kind.NOTICE)
            await self._send(room_id, self._names.node_user, content, f"office/{row.position}")
        address = self._address(row.office_id, name)
        ghost = self._ghost(address)
        if ghost is None:
            return await self._set(room_id, self._names.node_user, MEMBER, EMPTY, state_key(address))
        if await self._parts.backend.membership(room_id, ghost) != "join":
            return NOT_ACCEPTED  # it was kicked or banned, and so is no longer a member
        seat = await self._parts.backend.state_event(room_id, SEAT)
        if role == AGENT and seat is not None and seat.sender == ghost:
            await self._set(room_id, ghost, SEAT, EMPTY, "")
        event_id = await self._set(room_id, ghost, MEMBER, EMPTY, ghost)
        await self._parts.backend.leave(room_id, ghost)
        return event_id

    async def _tools(self, room_id: str, address: AgentAddress, content: Any) -> str:
        """The Computer's tools, sent by its ghost; skipped if it has left."""
        ghost = self._ghost(address)
        if ghost is None:
            return await self._set(room_id, self._names.node_user, TOOLS, content, state_key(address))
        if await self._parts.backend.membership(room_id, ghost) != "join":
            return NOT_ACCEPTED
        return await self._set(room_id, ghost, TOOLS, content, ghost)

    async def _answered(self, room_id: str, row: RecordRow) -> str:
        assert row.call_id is not None, "an answer belongs to a call"
        async with self._parts.database.transaction(readonly=True) as connection:
            [called] = await office_records.fetch_call(connection, row.call_id)
            call_event = await office_records.fetch_call_event(connection, row.call_id)
        if call_event is None:
            return NOT_ACCEPTED  # the room has refused the call's message as well
        call, body = _call(called), records.read_body(row.body)
        result = read_result(body["answer"], call.tool_name)
        sender = await self._sender(room_id, row.office_id, call.computer)
        media = [
            await self._parts.backend.upload(sender, file.content, file.content_type, file.name)
            for file in result.files
        ]
        content = result_content(
            call, result, call_event=call_event, at_ms=row.at_ms, took_ms=body["took_ms"], media=media
        )
        event_id = await self._send(room_id, sender, content, f"office/{row.position}")
        for number, (info, file) in enumerate(zip(media, result.files, strict=True)):
            shown = file_content(info, file.name, call_event=call_event)
            await self._send(room_id, sender, shown, f"office/{row.position}/{number}")
        return event_id

    # -- rooms and senders --

    async def _room(self, office_id: str) -> str:
        room_id = self._rooms.get(office_id)
        if room_id is None:
            room_id = await self._parts.room_of(office_id)
            self._rooms[office_id] = room_id
        return room_id

    def _address(self, office_id: str, name: str) -> AgentAddress:
        return member_address(office_id, name, self._node_id)

    def _ghost(self, address: AgentAddress) -> str | None:
        ghost = self._names.ghost(address)
        return None if isinstance(ghost, NoGhost) else ghost

    async def _sender(self, room_id: str, office_id: str, name: str) -> str:
        """The member's ghost while it is joined, otherwise the node's own user."""
        ghost = self._ghost(self._address(office_id, name))
        if ghost is not None and await self._parts.backend.membership(room_id, ghost) == "join":
            return ghost
        return self._names.node_user

    async def _set(self, room_id: str, sender: str, type_: str, content: Any, key: str) -> str:
        return await self._parts.backend.set_state(room_id, sender, type_, content, key)

    async def _send(self, room_id: str, sender: str, content: Any, name: str) -> str:
        return await self._parts.backend.send(room_id, sender, MESSAGE, content, transaction_id=name)

    async def _set_published(self, positions: Sequence[int], event_id: str) -> None:
        async with self._parts.database.transaction() as connection:
            await office_records.mark_sent(connection, positions, event_id)
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()

    async def _prune(self) -> None:
        made_before = self._parts.now_ms() - RETENTION_MS
        async with self._parts.database.autocommit() as connection:
            await office_records.prune(connection, made_before, PRUNE_BATCH)


def _call(row: RecordRow) -> ToolCall:
    assert row.call_id is not None, "a call has an id"
    return records.read_call(row.call_id, row.body, row.at_ms)


def _outcome(answer: RecordRow) -> tuple[Any, int]:
    body = records.read_body(answer.body)
    return outcome_of(body["answer"]), body["took_ms"]


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


def is_published_elsewhere(row: RecordRow) -> bool:
    """Calls by members of other nodes are sent to the room by those nodes."""
    return row.call_id is not None and row.call_id.startswith(records.REMOTE_PREFIX)


def group_into_messages(rows: Sequence[RecordRow]) -> dict[int, int]:
    """Map each record's position to that of its message: its own, or, in a busy office, that of the first of
    several calls which already have their answers."""
    by_office: dict[str, list[RecordRow]] = {}
    for row in rows:
        by_office.setdefault(row.office_id, []).append(row)
    message_of = {row.position: row.position for row in rows}
    for of_office in by_office.values():
        if len(of_office) <= MAX_SINGLE_RECORDS:
            continue
        called = {row.call_id: row for row in of_office if row.kind == records.CALLED}
        pairs = [
            (called[row.call_id], row) for row in of_office if row.kind == records.ANSWERED and row.call_id in called
        ]
        for start in range(0, len(pairs), MAX_IN_DIGEST):
            together = pairs[start : start + MAX_IN_DIGEST]
            first = min(call.position for call, _ in together)
            message_of |= {row.position: first for pair in together for row in pair}
    return message_of
