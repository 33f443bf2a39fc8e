"""A process that handles what is said until it is killed. Run by `test_event_inbox.py`.

It sends messages under transaction ids, and handles them by writing each into a table, once. Arguments: the
database, the user, how many messages, the rooms.
"""

import asyncio
import sys

from bridge.people.service.event_inbox import EventInbox
from federation.events.room_event import StreamedEvent
from storage.connect import DatabaseAddress
from tests.federation.local_users.homes import Home, home_on


async def send(home: Home, room_id: str, user: str, count: int) -> None:
    for number in range(count):
        await home.say(room_id, user, f"{room_id} {number}", transaction_id=f"message {number}")


async def main(url: str, user: str, count: int, rooms: list[str]) -> None:
    async with home_on(DatabaseAddress.from_url(url)) as home:

        async def handle(entry: StreamedEvent) -> None:
            async with home.database.transaction() as connection:
                await connection.execute(
                    "INSERT INTO notes (room_id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                    entry.event.room_id,
                    entry.event.content["body"],
                )
            sys.stdout.write(f"{entry.position}\n")
            sys.stdout.flush()

        inbox = EventInbox(
            home.rooms,
            home.database,
            "test",
            handle,
            lambda sentence, error: None,
            wanted=lambda event: event.type == "m.room.message",
        )
        # The first one must read before anything is said.
        inbox.start()
        while "test" not in await home.rooms.lags():
            await asyncio.sleep(0.01)
        await asyncio.gather(*(send(home, room_id, user, count) for room_id in rooms))
        await asyncio.Event().wait()


if __name__ == "__main__":
    _, url, user, count, *rooms = sys.argv
    asyncio.run(main(url, user, int(count), rooms))
