import os
import platform
import socket
from pathlib import Path

from bench._harness.machine import description, filesystem, load, processors, versions


def test_the_machine_is_described_without_being_named() -> None:
    """Python, system, architecture and CPUs decide a figure; a host's name and paths do not."""
    found = description()
    assert set(found) == {"python", "implementation", "system", "architecture", "cpus"}
    assert found["python"] == platform.python_version()
    assert socket.gethostname() not in map(str, found.values())
    assert not any("/" in str(value) for value in found.values())


def test_processors_are_those_this_process_may_use() -> None:
    """A container may have fewer than the machine."""
    assert set(processors()) == os.sched_getaffinity(0)


def test_the_load_is_what_the_kernel_says() -> None:
    """A figure of a busy machine has to say that it is one."""
    assert load() >= 0


def test_versions_are_those_installed() -> None:
    """In the order of the alphabet."""
    assert list(versions(["uvloop", "orjson"])) == ["orjson", "uvloop"]


def test_the_file_system_is_told_by_its_kind() -> None:
    """A commit on tmpfs costs nothing, and the table has to say so."""
    assert filesystem(Path("/proc")) == "proc"
