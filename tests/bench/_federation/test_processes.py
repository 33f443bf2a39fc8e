import os
import subprocess
import sys

from bench._federation.processes import TICK, cpu_seconds, family_cpu_seconds, resident_bytes

BUSY = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
PARENT = f"""
import subprocess, sys
pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
child = subprocess.Popen([sys.executable, "-c", {BUSY!r}], **pipes)
child.stdout.readline()
print(child.pid, flush=True)
input()
child.communicate("\\n")
print(flush=True)
input()
"""


def test_a_process_and_its_children_are_counted() -> None:
    """Running children and ended ones: a Postgres ends its processes and starts others. The parent is a
    process of its own, because this one has children of other tests."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert cpu_seconds(child) >= 0.15
        alone, running = cpu_seconds(parent.pid), family_cpu_seconds(parent.pid)
        assert running - alone >= 0.15
        parent.stdin.write("\n")
        parent.stdin.flush()
        parent.stdout.readline()
        assert cpu_seconds(child) == 0.0
        # The kernel rounds each of the four figures down to a tick.
        assert family_cpu_seconds(parent.pid) >= running - 4 * TICK
        parent.stdin.write("\n")


def test_memory_is_counted_in_bytes() -> None:
    """A Python has some ten MiB at least."""
    assert 10 << 20 < resident_bytes(os.getpid()) < 8 << 30


def test_a_process_that_has_just_ended_has_used_nothing() -> None:
    """Its parent has its time."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu_seconds(ended.pid) == 0.0
