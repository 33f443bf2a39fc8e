"""A process that sends messages and reads the stream until it is killed. Run by `test_subscription.py`.

It sends messages under transaction ids and reads the stream under a name. It inserts each event that it
reads into a table, in the transaction that advances the cursor. Arguments: the database, the room, the
user, and the number of messages.
"""

import asyncio
import sys

from storage.connect import DatabaseAddress
from tests.federation.local_users.homes import Home, home_on


async def send(home: Home, room_id: str, user: str, count: int) -> None:
    for number in range(count):
        await home.say(room_id, user, str(number), transaction_id=f"message {number}")


async def read(home: Home) -> None:
    async with home.rooms.subscription("notes") as subscription:
        sys.stdout.write("reading\n")
        sys.stdout.flush()
        while True:
            for entry in await subscription.next(10):
                async with home.database.transaction() as connection:
                    await connection.execute(
                        "INSERT INTO notes (event_id, body) VALUES ($1, $2)",
                        entry.event.event_id,
                        str(entry.event.content.get("body")),
                    )
                    await subscription.advance(connection, entry.position)
                sys.stdout.write(f"{entry.position}\n")
                sys.stdout.flush()


async def main(url: str, room_id: str, user: str, count: int) -> None:
    async with home_on(DatabaseAddress.from_url(url)) as home:
        await asyncio.gather(send(home, room_id, user, count), read(home))


if __name__ == "__main__":
    _, url, room_id, user, count = sys.argv
    asyncio.run(main(url, room_id, user, int(count)))
