"""How child processes receive lines from the benchmark, and detect its end."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from typing import Any


async def lines_from_parent() -> AsyncIterator[str]:
    """Yield the benchmark's lines until it closes the pipe or dies: the child then has to end."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode()


async def until_abandoned() -> None:
    """For a child that only serves: wait until the benchmark no longer needs it."""
    async for _ in lines_from_parent():
        pass


def tell_parent(**facts: Any) -> None:
    """Write one line to the benchmark: that this child is ready, and what it needs to use it."""
    try:
        # Unbuffered, so that nothing is left for Python to flush, and to complain about, at its end.
        os.write(sys.stdout.fileno(), json.dumps(facts).encode() + b"\n")
    except BrokenPipeError:
        # The benchmark was killed before this child had started.
        raise SystemExit from None
