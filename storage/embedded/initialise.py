"""Makes a new cluster, whole or not at all: a kill in the middle leaves only what the next start removes."""

import asyncio
import os
import secrets
import shutil
import time

from storage.embedded.home import opened
from storage.embedded.launch import Programs
from storage.embedded.layout import Layout

PATIENCE = 5.0


def is_made(layout: Layout) -> bool:
    return layout.cluster.is_dir() and any(layout.cluster.iterdir())


async def initialise(programs: Programs) -> None:
    layout = programs.layout
    await asyncio.to_thread(remove, layout)
    # A name that was never used: the programs of an interrupted attempt may live a moment longer than the
    # node that started them, and would write into, or remove, what has their name.
    name = layout.unfinished + secrets.token_hex(4)
    await programs.initdb(
        [
            *("--pgdata", f"@home@/{name}"),
            *("--username", "palaver"),
            *("--encoding", "UTF8", "--locale", "C", "--data-checksums"),
            # The mode of the socket's directory says who may come in; TCP is off.
            *("--auth-local", "trust", "--auth-host", "reject"),
            "--no-instructions",
        ]
    )
    (layout.home / name).rename(layout.cluster)
    with opened(layout.home) as handle:
        # initdb has synced what is inside; the new name has to survive a power cut as well.
        await asyncio.to_thread(os.fsync, handle)


def remove(layout: Layout) -> None:
    """Remove the leftovers of interrupted attempts; what is still being written to is left to the next."""
    deadline = time.monotonic() + PATIENCE
    for path in layout.home.glob(layout.unfinished + "*"):
        while path.exists():
            shutil.rmtree(path, ignore_errors=True)
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)  # in a thread of its own
