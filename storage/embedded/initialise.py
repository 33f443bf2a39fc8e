"""Makes a new cluster, whole or not at all: a kill in the middle leaves only what the next start removes."""

import asyncio
import os
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
    await programs.initdb(
        [
            *("--pgdata", f"@home@/{layout.unfinished.name}"),
            *("--username", "palaver"),
            *("--encoding", "UTF8", "--locale", "C", "--data-checksums"),
            # The mode of the socket's directory says who may come in; TCP is off.
            *("--auth-local", "trust", "--auth-host", "reject"),
            "--no-instructions",
        ]
    )
    layout.unfinished.rename(layout.cluster)
    with opened(layout.home) as handle:
        # initdb has synced what is inside; the new name has to survive a power cut as well.
        await asyncio.to_thread(os.fsync, handle)


def remove(layout: Layout) -> None:
    """Remove the leftover of an interrupted initdb, whose last child may still be writing for a moment."""
    deadline = time.monotonic() + PATIENCE
    while layout.unfinished.exists():
        try:
            shutil.rmtree(layout.unfinished)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)  # in a thread of its own
