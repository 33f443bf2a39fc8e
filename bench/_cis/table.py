"""A process that loads the routing table as a starting node does, and reports what that costs.

`python -m bench._cis.table NODE DATABASE`.
"""

import asyncio
import ctypes
import gc
import os
import sys
from time import perf_counter, process_time

import uvloop

from bench._federation.processes import resident_bytes
from bench._harness.lifeline import tell_parent
from bridge.agents.routing_table import RoutingTable
from bridge.clock import now_ms
from storage.connect import DatabaseAddress
from storage.database import Database


async def run(node_id: str, address: str) -> None:
    """Load it once."""
    database = await Database.connect(DatabaseAddress.from_url(address))
    try:
        table = RoutingTable(node_id, database, now_ms=now_ms)
        memory, cpu, began = resident_bytes(os.getpid()), process_time(), perf_counter()
        await table.start()
        seconds, used = perf_counter() - began, process_time() - cpu
        # What was needed only while it was read does not count.
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        memory = resident_bytes(os.getpid()) - memory
        agents = sum(1 for _ in table.table.agents())
        tell_parent(seconds=seconds, cpu=used, memory=memory, agents=agents)
        await table.close()
    finally:
        await database.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(sys.argv[1], sys.argv[2]))
