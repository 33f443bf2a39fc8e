"""Starts node_process.py and reads its output; waits for the ends of processes; runs commands as other
users."""

import asyncio
import json
import os
import pwd
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from storage.embedded import EmbeddedPostgres
from tests.storage.conftest import RUN_AS

ROOT = Path(__file__).parents[3]


class Node:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output: list[dict[str, Any]] = []

    async def until(self, *events: str) -> dict[str, Any]:
        """Wait for the next of these events, including those reported before this call."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self.output.append(json.loads(line))
            if self.output[-1]["event"] in events:
                return self.output[-1]
        raise AssertionError(f"it ended without one of {events}: {self.output}")

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def stop(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.close()
        ended = await self.until("ended")
        assert await self.process.wait() == 0
        return ended


@asynccontextmanager
async def node(data: Path, *prefix: str, loop: str = "asyncio", **options: Any) -> AsyncIterator[Node]:
    """`prefix` is a command that runs the process as another user."""
    process = await asyncio.create_subprocess_exec(
        *prefix,
        sys.executable,
        "-B",
        "-m",
        f"{__package__}.node_process",
        loop,
        str(data),
        json.dumps(options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield Node(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@cache
def as_ordinary_user() -> tuple[str, ...]:
    """The prefix for an ordinary user: the user of the tests, or the one as whom Postgres runs."""
    if os.geteuid() != 0:
        return ()
    entry = pwd.getpwnam(RUN_AS)
    plain = ("setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups")
    # In two steps, because setpriv itself starts with the rights of root.
    again = "import subprocess as s, sys; s.run([sys.executable, '-c', 'import storage.embedded'], check=True)"
    check = [*plain, sys.executable, "-c", again]
    if subprocess.run(check, check=False, cwd=ROOT, stderr=subprocess.DEVNULL).returncode == 0:
        return plain
    # Python or the clone may be in a directory that only root may enter. In a private namespace, an
    # accessible directory with the same next entry is mounted over each such directory.
    steps = [
        step
        for path in (ROOT, Path(sys.base_prefix))
        for step in zip(path.parents, (path, *path.parents), strict=False)
    ]
    closed = dict.fromkeys(step for step in reversed(steps) if not step[0].stat().st_mode & 0o001)
    opened = ""
    for parent, child in closed:
        there, target = shlex.quote(str(parent)), shlex.quote(str(child))
        # mount(8) would resolve the handle to its name, over which another directory is mounted by then.
        source = shlex.quote(f"/proc/self/fd/3/{child.name}")
        opened += f"exec 3<{there}; mount -t tmpfs -o mode=0755 none {there}; mkdir {target}; "
        opened += f"mount --no-canonicalize --bind {source} {target}; exec 3<&-; "
    return ("unshare", "--mount", "sh", "-ec", f'{opened}exec "$@"', "open", *plain)


def without(*capabilities: str) -> tuple[str, ...]:
    """The prefix for a root with fewer capabilities, as in a container. An ordinary user has none of them
    anyway."""
    if os.geteuid() != 0:
        return ()
    less = ",".join(f"-{name}" for name in capabilities)
    return ("setpriv", f"--bounding-set={less}", f"--inh-caps={less}")


@cache
def namespaces_permitted() -> bool:
    """Whether this process may mount in a private namespace. Root may, except in most containers."""
    done = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "x", "/mnt"], check=False, stderr=-1)
    return done.returncode == 0


async def end_of(pid: int) -> None:
    """Wait until the process has ended, also if it is not a child."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            # `select` does not support handles above 1023, and a test run may have that many open.
            waiting = select.poll()
            waiting.register(handle, select.POLLIN)
            await asyncio.to_thread(waiting.poll)
        finally:
            os.close(handle)


class Reports:
    """The events that a Postgres reports."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, Any]]] = []
        self._news = asyncio.Event()

    def __call__(self, event: str, fields: dict[str, Any]) -> None:
        self.seen.append((event, fields))
        self._news.set()

    def names(self) -> list[str]:
        return [event for event, _ in self.seen]

    async def until(self, event: str) -> dict[str, Any]:
        """Wait for the next of these events, including those reported before this call."""
        at = 0
        while True:
            for name, fields in self.seen[at:]:
                if name == event:
                    return fields
            at = len(self.seen)
            self._news.clear()
            await self._news.wait()


@asynccontextmanager
async def started(data: Path, **options: Any) -> AsyncIterator[tuple[EmbeddedPostgres, Reports]]:
    reports = Reports()
    postgres = EmbeddedPostgres(data, report=reports, **{"minimum_free_bytes": 0, **options})
    await postgres.start()
    try:
        yield postgres, reports
    finally:
        await postgres.stop()


def kill(pid: int | None) -> None:
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
