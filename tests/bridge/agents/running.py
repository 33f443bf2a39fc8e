"""Runs commands like agents' commands, and checks what is left of them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bridge.agents.local.process import Command, ProcessLimits, ProcessResult, run

# Far above what any test takes; it only ends tests that hang.
TIMEOUT = 60.0
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass
class Runner:
    """One command. `messages` has its progress messages."""

    messages: list[str] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def report_progress(self, message: str) -> None:
        self.messages.append(message)
        self._changed.set()

    async def until(self, message: str) -> None:
        async with asyncio.timeout(TIMEOUT):
            while message not in self.messages:
                self._changed.clear()
                await self._changed.wait()

    async def run(
        self,
        *words: str,
        stdin: bytes = b"",
        directory: Path = Path("/"),
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        seconds: float = TIMEOUT,
        output: int = 1 << 20,
        grace: float = TIMEOUT,
    ) -> ProcessResult:
        command = Command(words, {"PATH": PATH, **(environment or {})}, directory, stdin, files or {})
        return await run(command, ProcessLimits(seconds, output, grace), self.report_progress)

    async def sh(self, script: str, **wanted: object) -> ProcessResult:
        return await self.run("/bin/sh", "-c", script, **wanted)  # type: ignore[arg-type] # passed on


def is_alive(process: int) -> bool:
    """False for a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(b")")[2].split()[0] not in (b"Z", b"X")


async def end_of(process: int) -> None:
    async with asyncio.timeout(TIMEOUT):
        while is_alive(process):
            await asyncio.sleep(0.01)


async def process_in(file: Path) -> int:
    """The process id in a file, once it is written."""
    async with asyncio.timeout(TIMEOUT):
        while not (file.exists() and file.read_text().endswith("\n")):
            await asyncio.sleep(0.01)
    return int(file.read_text())


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_closed(before: int) -> None:
    """Wait until no more files are open than before. The event loop closes those of a process shortly after
    its end."""
    async with asyncio.timeout(TIMEOUT):
        while open_files() > before:
            await asyncio.sleep(0.01)  # there is no event to wait for
