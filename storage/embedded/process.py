"""One process that is held by its pidfd: its end can be awaited and its number cannot become another's."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path


class Process:
    """A postmaster, be it our own child or one that an earlier node left behind."""

    def __init__(self, pid: int, child: asyncio.subprocess.Process | None = None) -> None:
        """ProcessLookupError when there is no such process, unless it was our own child and has ended."""
        self.pid = pid
        self._child = child
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            # The event loop waits for its children, and may have been faster than we are.
            if child is None:
                raise
            self._ended.set_result(None)
        else:
            loop.add_reader(self._pidfd, self._end, self._pidfd)

    def _end(self, pidfd: int) -> None:
        asyncio.get_running_loop().remove_reader(pidfd)
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def adopted(self) -> bool:
        return self._child is None

    async def ended(self, within: float | None = None) -> bool:
        """Wait for the end; False when the time is over first."""
        # A bare future, which is never cancelled here, lets any number of callers wait for one end.
        done, _ = await asyncio.wait({self._ended}, timeout=within)
        return bool(done)

    async def status(self) -> int | None:
        """The exit status of our own child, negative for a signal; only its parent learns that of another."""
        return await self._child.wait() if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill_all(self) -> None:
        """End the postmaster's backends with it: each is the leader of a group of its own."""
        children = children_of(self.pid)
        self.send(signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def close(self) -> None:
        """Give the handle back; to be called once the process has ended or is left running on purpose."""
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if self._ended.done() and self._child is not None:
            await self._child.wait()


def children_of(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # After the name in parentheses, which may hold anything, come the state and the parent.
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


async def end(process: Process, *, fast: float, immediate: float) -> str:
    """Stop a postmaster: rolling back what is open, then without a checkpoint, then by force.

    Returns the name of the signal that did it.
    """
    process.send(signal.SIGINT)
    if await process.ended(fast):
        return "SIGINT"
    process.send(signal.SIGQUIT)
    if await process.ended(immediate):
        return "SIGQUIT"
    process.kill_all()
    await process.ended()
    return "SIGKILL"
