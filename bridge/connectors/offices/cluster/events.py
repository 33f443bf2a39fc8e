"""Forwards events between the processes of a node. One process reads the stream for all of them; an event may
concern a call of another process: a person's reaction, or an answer from another node. Forwards also what the
records of one process mean for the others.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from bridge.connectors.offices.calls.approvals import CallApprovals
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.observability.report import Report
from federation.events.room_event import RoomEvent
from storage.concurrency import BackgroundTasks

_TEXTS = ("event_id", "room_id", "sender", "type")


def encode_event(event: RoomEvent) -> dict[str, Any]:
    return {
        **{name: getattr(event, name) for name in _TEXTS},
        "content": event.content,
        "origin_server_ts": event.origin_server_ts,
    }


def decode_event(content: Mapping[str, Any]) -> RoomEvent | None:
    """None if the message does not have the form that `encode_event` gives it."""
    texts = [content.get(name) for name in _TEXTS]
    event_content, at_ms = content.get("content"), content.get("origin_server_ts")
    if not all(isinstance(one, str) for one in texts) or not isinstance(event_content, dict) or type(at_ms) is not int:
        return None
    event_id, room_id, sender, type_ = map(str, texts)
    return RoomEvent(event_id, room_id, sender, type_, event_content, at_ms)


PERSON_EVENT: Final = "answered"
"""A person's message or reaction, which may answer a question or cancel a call."""
REMOTE_EVENT: Final = "said"
"""An event of a member of another node."""
ROOM_CHANGED: Final = "room"
"""The members of a shared office may have changed."""
TOOLS_CHANGED: Final = "learned"
"""The tools of a Computer."""
RECORDS_WRITTEN: Final = "written"
"""There are new records to send to rooms; one process does that."""
WRITTEN_DELAY: Final = 0.02
"""Seconds in which several `RECORDS_WRITTEN` messages are combined into one."""


class ClusterEvents:
    """Must be closed before the broker."""

    def __init__(
        self,
        broker: Broker,
        records: OfficeRecords,
        approvals: CallApprovals,
        shared: SharedOffices | None,
        *,
        report: Report,
    ) -> None:
        self._broker = broker
        self._report = report
        self._background = BackgroundTasks()
        self._written_timer: asyncio.TimerHandle | None = None
        self._approvals = approvals
        self._records = records
        self._shared = shared
        approvals.forward_with(records.process.name, self._publish_person_event)
        records.publish_tools = self._publish_tools
        records.on_written = self._publish_written_soon
        broker.subscribe(PERSON_EVENT, self._on_person_event)
        broker.subscribe(TOOLS_CHANGED, self._on_tools)
        broker.subscribe(RECORDS_WRITTEN, lambda content: records.wake())
        if shared is not None:
            shared.forward_with(self._publish_room, self._publish_remote_event)
            broker.subscribe(REMOTE_EVENT, self._on_remote_event)
            broker.subscribe(ROOM_CHANGED, self._on_room)

    async def close(self) -> None:
        if self._written_timer is not None:
            self._written_timer.cancel()
            self._publish_written()
        await self._background.close()

    # -- to other processes --

    def _publish_person_event(self, event: RoomEvent) -> None:
        self._broker.publish(PERSON_EVENT, encode_event(event), retry=True)

    def _publish_remote_event(self, event: RoomEvent) -> None:
        self._broker.publish(REMOTE_EVENT, encode_event(event), retry=True)

    def _publish_room(self, room_id: str) -> None:
        self._broker.publish(ROOM_CHANGED, {"room_id": room_id})

    def _publish_tools(self, office_id: str, name: str, content: Mapping[str, Any]) -> None:
        self._broker.publish(TOOLS_CHANGED, {"office_id": office_id, "name": name, "content": content})

    def _publish_written_soon(self) -> None:
        if self._written_timer is None:
            loop = asyncio.get_running_loop()
            self._written_timer = loop.call_later(WRITTEN_DELAY, self._publish_written)

    def _publish_written(self) -> None:
        self._written_timer = None
        self._broker.publish(RECORDS_WRITTEN, {})

    # -- from other processes --

    def _on_person_event(self, content: Mapping[str, Any]) -> None:
        event = decode_event(content)
        if event is not None:
            self._spawn(self._approvals.handle_forwarded(event))

    def _on_remote_event(self, content: Mapping[str, Any]) -> None:
        event = decode_event(content)
        if event is not None and self._shared is not None:
            self._spawn(self._shared.handle_forwarded(event))

    def _on_room(self, content: Mapping[str, Any]) -> None:
        room_id = content.get("room_id")
        if isinstance(room_id, str) and self._shared is not None:
            self._spawn(self._shared.refresh_room(room_id))

    def _on_tools(self, content: Mapping[str, Any]) -> None:
        office_id, name = content.get("office_id"), content.get("name")
        if isinstance(office_id, str) and isinstance(name, str):
            self._records.set_tools(office_id, name, content.get("content"))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._background.spawn("event forwarded by another process", work)
