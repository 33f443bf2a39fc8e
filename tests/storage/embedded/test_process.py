"""Processes held by a pidfd, and stopping a postmaster."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from storage.embedded.launch import Process, children_of, stop_postmaster
from tests.storage.embedded.nodes import end_of

# A minimal postmaster: it ends at the given signals, and at no other.
# A shell handles signals between two commands, so it sleeps only briefly.
OBEDIENT = "trap 'exit 0' INT; while :; do sleep 0.1 & wait; done"
DEAF = "trap '' INT QUIT; while :; do sleep 600 & wait; done"
ONLY_QUIT = f"""exec {sys.executable} -I -S -c '
import os, signal, subprocess, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGQUIT, lambda *_: os._exit(2))
subprocess.Popen(["sleep", "600"])
time.sleep(600)
'"""


@asynccontextmanager
async def shell(script: str) -> AsyncIterator[Process]:
    child = await asyncio.create_subprocess_exec("/bin/sh", "-c", f"{script}", start_new_session=True)
    process = Process(child.pid, child)
    try:
        # It handles signals once it has a child.
        while not children_of(child.pid):
            await asyncio.sleep(0.001)
        yield process
    finally:
        for pid in children_of(child.pid):
            os.kill(pid, signal.SIGKILL)
        process.send(signal.SIGKILL)
        await process.ended()
        await process.close()


async def test_the_end_can_be_awaited() -> None:
    """By any number of waiters, with or without timeout, before and after it."""
    async with shell("sleep 600") as process:
        waiters = [asyncio.create_task(process.ended()) for _ in range(3)]
        assert not await process.ended(0)
        assert not await process.ended(0.01)
        process.send(signal.SIGTERM)
        assert await asyncio.gather(*waiters) == [True, True, True]
        assert await process.ended(0)
        assert await process.status() == -signal.SIGTERM
        process.send(signal.SIGTERM)  # after its end, which is no error


async def test_a_cancelled_waiter_does_not_affect_the_others() -> None:
    async with shell("sleep 600") as process:
        impatient = asyncio.create_task(process.ended())
        patient = asyncio.create_task(process.ended())
        await asyncio.sleep(0)
        impatient.cancel()
        process.send(signal.SIGTERM)
        assert await patient


async def test_a_process_that_is_not_a_child_can_be_held() -> None:
    """Its end is noticed; its exit status is not available."""
    unrelated = subprocess.Popen(["/bin/sleep", "600"])
    process = Process(unrelated.pid)
    try:
        assert process.adopted
        unrelated.kill()
        assert await process.ended()
        assert await process.status() is None
    finally:
        unrelated.wait()
        await process.close()


async def test_a_child_may_have_ended_before_it_is_held() -> None:
    """The event loop reaps it at once; its end and its status are still available."""
    child = await asyncio.create_subprocess_exec("/bin/true")
    await child.wait()
    process = Process(child.pid, child)
    assert await process.ended()
    assert await process.status() == 0
    assert await stop_postmaster(process, fast=60, immediate=60) == "SIGINT"
    await process.close()


async def test_an_unused_process_id_cannot_be_held() -> None:
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    with pytest.raises(ProcessLookupError):
        Process(gone.pid)


@pytest.mark.parametrize(
    ("script", "fast", "immediate", "sent"),
    [(OBEDIENT, 60.0, 0.0, "SIGINT"), (ONLY_QUIT, 0.1, 60.0, "SIGQUIT"), (DEAF, 0.1, 0.1, "SIGKILL")],
)
async def test_a_postmaster_is_stopped_with_increasing_force(
    script: str, fast: float, immediate: float, sent: str
) -> None:
    """SIGINT, after a timeout SIGQUIT, after another SIGKILL."""
    async with shell(script) as process:
        assert await stop_postmaster(process, fast=fast, immediate=immediate) == sent
        assert await process.ended(0)


async def test_killing_includes_the_children() -> None:
    """Each backend leads its own process group, so no group contains all of them."""
    async with shell(f"setsid sleep 600 & {DEAF}") as process:
        while len(children_of(process.pid)) < 2:
            await asyncio.sleep(0.001)
        children = children_of(process.pid)
        await stop_postmaster(process, fast=0.0, immediate=0.0)
        for pid in children:
            await end_of(pid)


async def test_children_are_found_whatever_their_name() -> None:
    """A name may contain parentheses."""
    script = "import os,time; open('/proc/self/comm','w').write(') S 1 (x'); time.sleep(600)"
    child = await asyncio.create_subprocess_exec("/usr/bin/env", "python3", "-c", script)
    try:
        assert child.pid in children_of(os.getpid())
    finally:
        child.kill()
        await child.wait()
    assert child.pid not in children_of(os.getpid())
