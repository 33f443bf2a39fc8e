"""A process that has a private Postgres, for tests that kill it, or run it as somebody else.

`python -m tests.storage.embedded.node_process LOOP DATA [OPTIONS]` writes one JSON object a line: what is
reported, then `ready` or `refused`. It stops its Postgres and ends when its standard input does.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from storage.embedded import EmbeddedPostgres
from storage.errors import LocalError


def say(event: str, fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


async def main(data: Path, options: dict[str, Any]) -> None:
    postgres = EmbeddedPostgres(data, report=say, **{"minimum_free_bytes": 0, **options})
    try:
        await postgres.start()
    except LocalError as error:
        say("refused", {"problem": error.problem, "advice": error.advice})
        return
    say("ready", {"pid": postgres.pid, "uid": os.geteuid(), "url": postgres.address.url})
    await asyncio.to_thread(sys.stdin.read)
    await postgres.stop()
    say("ended", {"state": postgres.state})


if __name__ == "__main__":
    arguments = sys.argv[1:]
    run = asyncio.run
    if arguments[0] == "uvloop":
        import uvloop

        run = uvloop.run
    run(main(Path(arguments[1]), json.loads(arguments[2]) if len(arguments) > 2 else {}))
