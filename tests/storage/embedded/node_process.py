"""A process with an embedded Postgres, for tests that kill it or run it as another user."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from storage.embedded import EmbeddedPostgres
from storage.errors import LocalError


def write(event: str, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


async def main(data: Path, options: dict[str, Any]) -> None:
    postgres = EmbeddedPostgres(data, report=write, **{"minimum_free_bytes": 0, **options})
    try:
        await postgres.start()
    except LocalError as error:
        write("refused", {"problem": error.problem, "advice": error.advice})
        return
    write("ready", {"pid": postgres.pid, "uid": os.geteuid(), "url": postgres.address.url})
    await asyncio.to_thread(sys.stdin.read)
    await postgres.stop()
    write("ended", {"state": postgres.state})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    run = asyncio.run
    if arguments[0] == "uvloop":
        import uvloop

        run = uvloop.run
    run(main(Path(arguments[1]), json.loads(arguments[2]) if len(arguments) > 2 else {}))
