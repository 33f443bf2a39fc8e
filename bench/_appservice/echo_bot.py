"""A bare echo bot as the mautrix documentation has one: an application service with a handler, and nothing
else.

`python -m bench._appservice.echo_bot SETTINGS`: reports that it is ready when its user has joined its room.

It has what its library gives it: transactions that it knows are kept in memory, handlers run beside each
other, the state of rooms is in a file that is written once a minute.
"""

import asyncio
import dataclasses
import json
import logging
import sys
from dataclasses import dataclass

import uvloop
from mautrix.appservice import AppService
from mautrix.appservice.state_store import FileASStateStore
from mautrix.types import Event, EventType, MessageEvent, MessageType, RoomAlias, RoomID, TextMessageEventContent

from bench._harness.lifeline import tell_parent, until_abandoned
from bench._harness.ports import LOOPBACK


@dataclass(frozen=True)
class Settings:
    """Its homeserver, its registration, and its data directory."""

    homeserver: str
    domain: str
    service_id: str
    localpart: str
    as_token: str
    hs_token: str
    port: int
    state_file: str
    room: str
    room_of_threads: str

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    service = AppService(
        server=settings.homeserver,
        domain=settings.domain,
        as_token=settings.as_token,
        hs_token=settings.hs_token,
        bot_localpart=settings.localpart,
        id=settings.service_id,
        loop=asyncio.get_running_loop(),
        state_store=FileASStateStore(path=settings.state_file, binary=False),
    )

    of_threads: set[RoomID] = set()

    @service.matrix_event_handler
    async def handle(event: Event) -> None:
        if event.type != EventType.ROOM_MESSAGE or event.sender == service.bot_mxid:
            return
        assert isinstance(event, MessageEvent), "mautrix says so by the type"
        if isinstance(event.content, TextMessageEventContent):
            if event.room_id not in of_threads:
                await service.intent.send_text(event.room_id, event.content.body)
                return
            answer = TextMessageEventContent(msgtype=MessageType.TEXT, body=event.content.body)
            answer.set_thread_parent(event)
            await service.intent.send_message(event.room_id, answer)

    await service.start(LOOPBACK, settings.port)
    try:
        await service.intent.ensure_registered()
        await service.intent.join_room(RoomAlias(settings.room))
        of_threads.add(await service.intent.join_room(RoomAlias(settings.room_of_threads)))
        service.ready = True
        tell_parent(ready=True)
        await until_abandoned()
    finally:
        await service.stop()


if __name__ == "__main__":
    # Lines that say of each request what it was cost either side more than they are worth here.
    logging.basicConfig(level=logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(Settings(**json.loads(sys.argv[1]))))
