"""What one process of a node has heard in a room, and passes on to the process that it is for.

What one process of the node hears for all of them, and another one has been waiting for: one process alone
reads what people say in rooms, and what other nodes do, whoever has the call that it is about.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from bridge.connectors.offices.calls.approving import Approving
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.observability.report import Report
from federation.events.room_event import RoomEvent
from storage.concurrency import BackgroundTasks

_TEXTS = ("event_id", "room_id", "sender", "type")


def passed_on(event: RoomEvent) -> dict[str, Any]:
    return {
        **{name: getattr(event, name) for name in _TEXTS},
        "content": event.content,
        "origin_server_ts": event.origin_server_ts,
    }


def read_passed(said: Mapping[str, Any]) -> RoomEvent | None:
    """None for what has not this form."""
    texts = [said.get(name) for name in _TEXTS]
    content, at_ms = said.get("content"), said.get("origin_server_ts")
    if (
        not all(isinstance(one, str) for one in texts)
        or not isinstance(content, dict)
        or type(at_ms) is not int
    ):
        return None
    event_id, room_id, sender, type_ = map(str, texts)
    return RoomEvent(event_id, room_id, sender, type_, content, at_ms)


ANSWERED: Final = "answered"
"""By people, a question or a call."""
SAID: Final = "said"
"""By a member of another node."""
ROOM: Final = "room"
"""Who is in an office that several nodes share may be others."""
LEARNED: Final = "learned"
"""What a Computer can."""
WRITTEN: Final = "written"
"""Something that rooms are to be told, which one process does."""
SOON: Final = 0.02
"""Seconds in which what is written is said together."""


class Passing:
    """It is closed before the broker is."""

    def __init__(
        self,
        broker: Broker,
        records: OfficeRecords,
        approving: Approving,
        shared: SharedOffices | None,
        *,
        report: Report,
    ) -> None:
        self._broker = broker
        self._report = report
        self._background = BackgroundTasks()
        self._writing: asyncio.TimerHandle | None = None
        self._approving = approving
        self._records = records
        self._shared = shared
        approving.pass_on(records.process.name, self._answered)
        records.also_learned = self._learned
        records.wrote = self._wrote
        broker.hear(ANSWERED, self._hear_answered)
        broker.hear(LEARNED, self._hear_learned)
        broker.hear(WRITTEN, lambda said: records.wake())
        if shared is not None:
            shared.pass_on(self._room, self._said)
            broker.hear(SAID, self._hear_said)
            broker.hear(ROOM, self._hear_room)

    async def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._say_written()
        await self._background.close()

    # -- to the others --

    def _answered(self, event: RoomEvent) -> None:
        self._broker.say(ANSWERED, passed_on(event), keeps=True)

    def _said(self, event: RoomEvent) -> None:
        self._broker.say(SAID, passed_on(event), keeps=True)

    def _room(self, room_id: str) -> None:
        self._broker.say(ROOM, {"room_id": room_id})

    def _learned(self, office_id: str, name: str, content: Mapping[str, Any]) -> None:
        self._broker.say(LEARNED, {"office_id": office_id, "name": name, "content": content})

    def _wrote(self) -> None:
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(SOON, self._say_written)

    def _say_written(self) -> None:
        self._writing = None
        self._broker.say(WRITTEN, {})

    # -- from the others --

    def _hear_answered(self, said: Mapping[str, Any]) -> None:
        event = read_passed(said)
        if event is not None:
            self._spawn(self._approving.hear_passed(event))

    def _hear_said(self, said: Mapping[str, Any]) -> None:
        event = read_passed(said)
        if event is not None and self._shared is not None:
            self._spawn(self._shared.hear_passed(event))

    def _hear_room(self, said: Mapping[str, Any]) -> None:
        room_id = said.get("room_id")
        if isinstance(room_id, str) and self._shared is not None:
            self._spawn(self._shared.follow_room(room_id))

    def _hear_learned(self, said: Mapping[str, Any]) -> None:
        office_id, name, content = said.get("office_id"), said.get("name"), said.get("content")
        if isinstance(office_id, str) and isinstance(name, str):
            self._records.learn(office_id, name, content)

    def _spawn(self, doing: Coroutine[Any, Any, None]) -> None:
        self._background.spawn("what another process of the node has received", doing)
