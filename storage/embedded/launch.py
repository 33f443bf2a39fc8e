"""Starts Postgres' programs through the launcher and turns its refusals into sentences."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.embedded import home
from storage.embedded.identity import Identity
from storage.embedded.launcher import REFUSED
from storage.embedded.layout import Layout
from storage.embedded.log import ROTATED_ABOVE
from storage.embedded.process import Process
from storage.embedded.space import free_space
from storage.embedded.tools import BIN, libraries_directory, package_directory
from storage.embedded.trouble import explain, explain_refusal

LAUNCHER = Path(__file__).with_name("launcher.py")
# Nothing of the node's environment: it may hold secrets, and PG* variables would change what Postgres does.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True, slots=True)
class Programs:
    layout: Layout
    identity: Identity | None

    async def postgres(self, arguments: list[str]) -> Process:
        """Running once this returns, accepting connections later. Its output goes into the log file."""
        child, _ = await self._launch("postgres", arguments, log="@home@/" + self.layout.log.name)
        return Process(child.pid, child)

    async def initdb(self, arguments: list[str]) -> None:
        child, output = await self._launch("initdb", arguments, log=None)
        if await child.wait() != 0:
            raise explain(output, self.layout.home, free_space(self.layout.home))

    async def _launch(
        self, program: str, arguments: list[str], log: str | None
    ) -> tuple[asyncio.subprocess.Process, str]:
        """The child, and what it wrote until it gave its output away, as it does to the log, or ended."""
        plan = self._plan(program, arguments, log)
        child, output = await spawn(plan)
        fields = await refusal(child, output)
        if fields is not None and fields["kind"] == "closed" and self._opens(fields["directory"]):
            child, output = await spawn(plan)
            fields = await refusal(child, output)
        if fields is not None:
            raise explain_refusal(fields, self.layout.home, free_space(self.layout.home), self.identity)
        return child, output

    def _opens(self, directory: str) -> bool:
        if self.identity is None or directory != str(self.layout.data):
            return False
        return home.open_to(self.layout, self.identity)

    def _plan(self, program: str, arguments: list[str], log: str | None) -> str:
        user = self.identity
        places = {
            "programs": package_directory(),
            "libraries": libraries_directory(),
            "home": self.layout.home,
        }
        return json.dumps(
            {
                "places": {name: str(path) for name, path in places.items() if path is not None},
                "user": {"uid": user.uid, "gid": user.gid, "groups": user.groups}
                if user is not None
                else None,
                # The parent of the child is this process; the kernel watches the thread that starts it, which
                # has to be the one that runs the event loop to the end.
                "parent": os.getpid(),
                "program": f"@programs@/{BIN}/{program}",
                "arguments": arguments,
                "log": log,
                "log_limit": ROTATED_ABOVE,
                "environment": ENVIRONMENT,
            }
        )


async def spawn(plan: str) -> tuple[asyncio.subprocess.Process, str]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(LAUNCHER),
        plan,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd="/",
        env=ENVIRONMENT | python_needs(),
    )
    assert child.stdout is not None, "a pipe was asked for"
    try:
        return child, (await child.stdout.read()).decode(errors="replace")
    except BaseException:
        # Cancelled: nobody would know of this process any more. initdb has children, in the session it leads.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        raise


def python_needs() -> dict[str, str]:
    """Where this Python may have its own shared library from; Postgres does not get to see it."""
    return {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}


async def refusal(child: asyncio.subprocess.Process, output: str) -> dict[str, Any] | None:
    if not output.startswith("{") or await child.wait() != REFUSED:
        return None
    fields: dict[str, Any] = json.loads(output)
    return fields
