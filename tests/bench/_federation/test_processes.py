import os
import subprocess
import sys
import time

from bench._federation.processes import cpu_seconds, family_cpu_seconds, resident_bytes

BUSY = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"


def test_a_process_and_its_children_are_counted() -> None:
    """Those that run and those that have ended: a Postgres ends its processes and starts others."""
    own, family = cpu_seconds(os.getpid()), family_cpu_seconds(os.getpid())
    child = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    child.stdout.readline()
    assert cpu_seconds(child.pid) >= 0.15
    running = family_cpu_seconds(os.getpid())
    child.communicate("\n", timeout=20)
    assert running - family >= 0.15
    assert family_cpu_seconds(os.getpid()) >= running
    assert cpu_seconds(os.getpid()) - own <= time.process_time()


def test_memory_is_counted_in_bytes() -> None:
    """A Python has some ten MiB at least."""
    assert 10 << 20 < resident_bytes(os.getpid()) < 8 << 30


def test_a_process_that_has_just_ended_has_used_nothing() -> None:
    """Its parent has its time."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu_seconds(ended.pid) == 0.0
