"""A process that receives transactions as fast as it can until it is killed. Run by `test_inbox.py`.

Arguments: the URL of the database and a file with one transaction per line.
"""

import asyncio
import sys
from pathlib import Path

import orjson

from federation.transactions.inbox import Inbox
from storage.connect import DatabaseAddress
from storage.database import Database
from tests.federation.inbox_transactions import NoEdus
from tests.support.graph import graph_on
from tests.support.rooms import Room


async def main(url: str, transactions: Path) -> None:
    database = await Database.connect(DatabaseAddress.from_url(url))
    async with graph_on(database, Room("12")) as here:
        inbox = Inbox(database, here.graph, NoEdus())
        for number, line in enumerate(transactions.read_bytes().splitlines()):
            await inbox.receive("b.example", str(number), orjson.loads(line))
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
