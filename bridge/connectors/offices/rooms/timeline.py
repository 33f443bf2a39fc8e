"""Tells the rooms of offices what was written down: in its order, once, by one process of the node.

An event bears a transaction id made from its place in the records: after a kill it is told again, and is the
same event. Where more happens than anybody could read, several calls are one message.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from cachetools import LRUCache

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.federated.shared_room import keeps_seat, sits
from bridge.connectors.offices.protocol.office import AGENT
from bridge.connectors.offices.protocol.tools import outcome_of, read_result
from bridge.connectors.offices.protocol.versions import parse
from bridge.connectors.offices.rooms import record_rows as records
from bridge.connectors.offices.rooms.call_events import (
    MOST_IN_DIGEST,
    DigestEntry,
    ToolCall,
    call_content,
    digest_content,
    file_content,
    result_content,
)
from bridge.connectors.offices.rooms.office_room import (
    FREE,
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
AT_ONCE: Final = 500
CALM: Final = 40
"""Records of one office that are told one by one; of more the calls are gathered."""
AGAIN: Final = 2.0
LOOKED_AT_EVERY: Final = 5.0
GATHERED_FOR: Final = 0.25
"""Seconds between two looks while something happens: what comes in quick succession is told together, and is
in nobody's way until then."""
LOOKED_FOR_EVERY: Final = 0.5
"""Whether another process has told a room."""
KEPT_MS: Final = 90 * 24 * 3_600 * 1_000
PRUNED_AT_ONCE: Final = 1_000
MOST_ROOMS: Final = 10_000


class _Later(Exception):
    """The side is in trouble: it is told when that has passed."""


class Recording:
    """It runs between `start` and `close`; `wake` says that there is something."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._node_id = parts.settings.node_id
        self._background = BackgroundTasks()
        self._wanted = asyncio.Event()
        self._rooms: LRUCache[str, str] = LRUCache(MOST_ROOMS)
        # Set when somebody waits for what the rooms know.
        self._hurry = asyncio.Event()
        # Set, and replaced, when something has been told.
        self._passed = asyncio.Event()

    def start(self) -> None:
        self._background.supervise("timeline of offices", self._tell_as_the_one)

    async def close(self) -> None:
        await self._background.close()

    def wake(self) -> None:
        self._wanted.set()

    async def until_told(self, office_id: str) -> None:
        """Until the room knows who has come and who has gone, whichever process tells it."""
        while True:
            passed = self._passed
            async with self._parts.database.transaction(readonly=True) as connection:
                if not await office_records.has_unsent_membership_changes(connection, office_id):
                    return
            self._hurry.set()
            await _wait(passed, LOOKED_FOR_EVERY)

    # -- inside --

    async def _tell_as_the_one(self) -> None:
        """One process of the node does."""
        async with self._parts.database.session.lease(NAME):
            while True:
                await self._tell_some()

    async def _tell_some(self) -> None:
        self._wanted.clear()
        try:
            told = await self._tell()
            if not told:
                await self._prune()
        except (ConnectionLost, _Later) as lost:
            self._parts.report("The rooms of offices are told later.", lost)
            await asyncio.sleep(AGAIN)
            return
        except Exception as error:
            self._parts.report("The rooms of offices could not be told.", error)
            await asyncio.sleep(AGAIN)
            return
        if not told:
            await _wait(self._wanted, LOOKED_AT_EVERY)
        elif told < AT_ONCE:
            await _wait(self._hurry, GATHERED_FOR)
            self._hurry.clear()

    async def _tell(self) -> int:
        """Some of it; how much there was. What is told together is decided first."""
        async with self._parts.database.transaction() as connection:
            untold = await office_records.fetch_unsent(connection, AT_ONCE)
            elsewhere = [row.position for row in untold if is_told_elsewhere(row)]
            if elsewhere:
                await office_records.mark_sent(connection, elsewhere, NOT_ACCEPTED)
            rows = [row for row in untold if not is_told_elsewhere(row)]
            told_as = told_together([row for row in rows if row.message_position is None])
            if told_as:
                await office_records.assign_messages(connection, told_as)
        by_office: dict[str, dict[int, list[RecordRow]]] = {}
        for row in rows:
            message = row.message_position if row.message_position is not None else told_as[row.position]
            by_office.setdefault(row.office_id, {}).setdefault(message, []).append(row)
        for office_id, messages in by_office.items():
            await self._tell_office(office_id, list(messages.values()))
        return len(untold)

    async def _tell_office(self, office_id: str, messages: Sequence[Sequence[RecordRow]]) -> None:
        try:
            room_id = await self._room(office_id)
        except MatrixError as refused:
            if refused.status >= 500:
                raise _Later(refused.text) from refused
            self._parts.report(f"The room of the office {office_id} is not there.", refused)
            await self._told([row.position for rows in messages for row in rows], NOT_ACCEPTED)
            return
        for rows in messages:
            await self._tell_one(room_id, rows)

    async def _tell_one(self, room_id: str, rows: Sequence[RecordRow]) -> None:
        """What a room does not take is no reason to try again."""
        try:
            event_id = await (
                self._say(room_id, rows[0]) if len(rows) == 1 else self._say_many(room_id, rows)
            )
        except MatrixError as refused:
            if refused.status >= 500:
                raise _Later(refused.text) from refused
            self._parts.report(f"Something of the office {rows[0].office_id} could not be told.", refused)
            event_id = NOT_ACCEPTED
        except ConnectionLost:
            raise
        except Exception as error:
            # What was not foreseen in one must not hold up all that follow.
            self._parts.report(f"Something of the office {rows[0].office_id} cannot be told.", error)
            event_id = NOT_ACCEPTED
        await self._told([row.position for row in rows], event_id)

    async def _say_many(self, room_id: str, rows: Sequence[RecordRow]) -> str:
        answers = {row.call_id: row for row in rows if row.kind == records.ANSWERED}
        entries = [
            DigestEntry(_call(row), *_outcome(answers[row.call_id]))
            for row in rows
            if row.kind == records.CALLED
        ]
        name = f"office/{rows[0].position}/digest"
        return await self._message(room_id, self._names.node_user, digest_content(entries), name)

    async def _say(self, room_id: str, row: RecordRow) -> str:
        match row.kind:
            case records.JOINED:
                return await self._joined(room_id, row)
            case records.LEFT:
                return await self._left(room_id, row)
            case records.TOOLS:
                said = records.read_body(row.body)
                return await self._tools(room_id, self._address(row.office_id, said["name"]), said["tools"])
            case records.CALLED:
                call = _call(row)
                # Some member may be called as whoever calls without being one.
                speaker = self._names.node_user
                if not call.is_direct:
                    speaker = await self._speaker(room_id, row.office_id, call.agent)
                return await self._message(room_id, speaker, call_content(call), f"office/{row.position}")
            case _:
                return await self._answered(room_id, row)

    async def _joined(self, room_id: str, row: RecordRow) -> str:
        role, name, version = records.member_of_record(row)
        address = self._address(row.office_id, name)
        known = None if version is None else parse(version)
        ghost = self._ghost(address)
        if ghost is None:
            content = member_content(role, name, self._node_id, known, row.at_ms)
            return await self._set(room_id, self._names.node_user, MEMBER, content, state_key(address))
        await self._parts.ghosts.let_in(room_id, ghost)
        content = member_content(role, name, self._node_id, known, row.at_ms, self._parts.box)
        event_id = await self._set(room_id, ghost, MEMBER, content, ghost)
        if role == AGENT and await self._is_free(room_id, ghost):
            await self._set(room_id, ghost, SEAT, seat_content(address, ghost, row.at_ms), "")
        return event_id

    async def _is_free(self, room_id: str, ghost: str) -> bool:
        """Whether nobody else sits there."""
        side = self._parts.side
        other = sits(await side.state_event(room_id, SEAT), {ghost, self._names.node_user})
        if other is None:
            return True
        said = await side.state_event(room_id, MEMBER, other)
        return not keeps_seat(said, await side.membership(room_id, other))

    async def _left(self, room_id: str, row: RecordRow) -> str:
        role, name, _ = records.member_of_record(row)
        reason = records.read_body(row.body).get("reason")
        if reason:
            said = content_of(Text.of(f"{name} had to leave: {reason}."), Kind.WORD)
            await self._message(room_id, self._names.node_user, said, f"office/{row.position}")
        address = self._address(row.office_id, name)
        ghost = self._ghost(address)
        if ghost is None:
            return await self._set(room_id, self._names.node_user, MEMBER, FREE, state_key(address))
        if await self._parts.side.membership(room_id, ghost) != "join":
            return NOT_ACCEPTED  # somebody has put it out, and by that it is no member
        seat = await self._parts.side.state_event(room_id, SEAT)
        if role == AGENT and seat is not None and seat.sender == ghost:
            await self._set(room_id, ghost, SEAT, FREE, "")
        event_id = await self._set(room_id, ghost, MEMBER, FREE, ghost)
        await self._parts.side.leave(room_id, ghost)
        return event_id

    async def _tools(self, room_id: str, address: AgentAddress, content: Any) -> str:
        """What a Computer can do, said by itself. Of one that has gone nobody wants to know it."""
        ghost = self._ghost(address)
        if ghost is None:
            return await self._set(room_id, self._names.node_user, TOOLS, content, state_key(address))
        if await self._parts.side.membership(room_id, ghost) != "join":
            return NOT_ACCEPTED
        return await self._set(room_id, ghost, TOOLS, content, ghost)

    async def _answered(self, room_id: str, row: RecordRow) -> str:
        assert row.call_id is not None, "an answer is to a call"
        async with self._parts.database.transaction(readonly=True) as connection:
            [called] = await office_records.fetch_call(connection, row.call_id)
            call_event = await office_records.fetch_call_event(connection, row.call_id)
        if call_event is None:
            return NOT_ACCEPTED  # nor did the room take the call
        call, said = _call(called), records.read_body(row.body)
        result = read_result(said["answer"], call.tool_name)
        speaker = await self._speaker(room_id, row.office_id, call.computer)
        media = [
            await self._parts.side.upload(speaker, file.content, file.content_type, file.name)
            for file in result.files
        ]
        content = result_content(
            call, result, call_event=call_event, at_ms=row.at_ms, took_ms=said["took_ms"], media=media
        )
        event_id = await self._message(room_id, speaker, content, f"office/{row.position}")
        for number, (info, file) in enumerate(zip(media, result.files, strict=True)):
            shown = file_content(info, file.name, call_event=call_event)
            await self._message(room_id, speaker, shown, f"office/{row.position}/{number}")
        return event_id

    # -- who and where --

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

    async def _speaker(self, room_id: str, office_id: str, name: str) -> str:
        """The member, while it is there; what came after it has left the node says."""
        ghost = self._ghost(self._address(office_id, name))
        if ghost is not None and await self._parts.side.membership(room_id, ghost) == "join":
            return ghost
        return self._names.node_user

    async def _set(self, room_id: str, sender: str, type_: str, content: Any, key: str) -> str:
        return await self._parts.side.set_state(room_id, sender, type_, content, key)

    async def _message(self, room_id: str, speaker: str, content: Any, name: str) -> str:
        return await self._parts.side.send(room_id, speaker, MESSAGE, content, transaction_id=name)

    async def _told(self, positions: Sequence[int], event_id: str) -> None:
        async with self._parts.database.transaction() as connection:
            await office_records.mark_sent(connection, positions, event_id)
        passed, self._passed = self._passed, asyncio.Event()
        passed.set()

    async def _prune(self) -> None:
        made_before = self._parts.now_ms() - KEPT_MS
        async with self._parts.database.autocommit() as connection:
            await office_records.prune(connection, made_before, PRUNED_AT_ONCE)


def _call(row: RecordRow) -> ToolCall:
    assert row.call_id is not None, "a call has an id"
    return records.read_call(row.call_id, row.body, row.at_ms)


def _outcome(answer: RecordRow) -> tuple[Any, int]:
    said = records.read_body(answer.body)
    return outcome_of(said["answer"]), said["took_ms"]


async def _wait(happened: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await happened.wait()


def is_told_elsewhere(row: RecordRow) -> bool:
    """Of a call the node of its Agent tells the room."""
    return row.call_id is not None and row.call_id.startswith(records.ELSEWHERE)


def told_together(rows: Sequence[RecordRow]) -> dict[int, int]:
    """By the position of each, the message in which it is told: its own, or that of several calls of its
    office that have their answers already, where there is too much to read."""
    by_office: dict[str, list[RecordRow]] = {}
    for row in rows:
        by_office.setdefault(row.office_id, []).append(row)
    told_as = {row.position: row.position for row in rows}
    for of_office in by_office.values():
        if len(of_office) <= CALM:
            continue
        called = {row.call_id: row for row in of_office if row.kind == records.CALLED}
        pairs = [
            (called[row.call_id], row)
            for row in of_office
            if row.kind == records.ANSWERED and row.call_id in called
        ]
        for start in range(0, len(pairs), MOST_IN_DIGEST):
            together = pairs[start : start + MOST_IN_DIGEST]
            first = min(call.position for call, _ in together)
            told_as |= {row.position: first for pair in together for row in pair}
    return told_as
