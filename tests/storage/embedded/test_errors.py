"""Explanations of failed starts."""

import errno
from pathlib import Path
from typing import Any

import pytest

from storage.embedded.errors import explain_failure, explain_refusal, is_transient
from storage.embedded.home import Identity

WHERE = Path("/srv/data/postgres")
NOBODY = Identity("nobody", 65534, 65534, (65534,))
CLOSED = (
    "The node runs as root and its Postgres as nobody, which may not enter /root, and a private mount "
    "namespace is not permitted (unshare: Operation not permitted)."
)
ELSE = "run the node as an ordinary user, or set database.url to a running Postgres."


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (
            'UTC [1] LOG:  starting\nUTC [1] FATAL:  data directory "x" has wrong ownership\n',
            'data directory "x" has wrong ownership',
        ),
        (
            "FATAL:  first\nPANIC:  could not locate a valid checkpoint record\n",
            "could not locate a valid checkpoint record",
        ),
        (
            "fixing permissions … ok\ninitdb: error: could not create directory.\ninitdb: removing",
            "could not create directory",
        ),
        ("Segmentation fault\n", "Segmentation fault"),
        ("", "no message"),
    ],
)
def test_the_last_fatal_message_is_the_reason(output: str, reason: str) -> None:
    """The advice names the log, which has the other messages."""
    error = explain_failure(output, WHERE, free=1 << 30, log=WHERE / "postgres.log")
    assert error.problem == f"Postgres could not start in /srv/data/postgres: {reason}."
    assert error.advice == "Read /srv/data/postgres/postgres.log, fix the cause and start the node again."


@pytest.mark.parametrize("text", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_reported_as_such(text: str) -> None:
    """With the free space and the directory: for example, a quota can be exhausted while there is free
    space."""
    error = explain_failure(f'FATAL:  could not write to file "pg_wal/xlogtemp.1": {text}', WHERE, free=12 << 20)
    assert error.problem == ("Only 12.0 MiB are free on the disk of /srv/data/postgres, and Postgres ran out of space.")
    assert "Free space" in error.advice


@pytest.mark.parametrize(
    ("output", "passing"),
    [
        ("FATAL:  pre-existing shared memory block (key 8, ID 2) is still in use", True),
        ('FATAL:  lock file "postmaster.pid" already exists', True),
        ("FATAL:  could not map anonymous shared memory", False),
    ],
)
def test_processes_of_a_predecessor_are_a_transient_problem(output: str, passing: bool) -> None:
    """They end by themselves, so the start is retried."""
    assert is_transient(output) is passing


@pytest.mark.parametrize(
    ("fields", "identity", "problem", "advice"),
    [
        (
            {"kind": "closed", "directory": "/root", "why": "unshare: Operation not permitted"},
            NOBODY,
            CLOSED,
            "Move the installation and data_dir to directories that all users may enter, " + ELSE,
        ),
        (
            {"kind": "closed", "directory": "/venv/bin/postgres", "why": "its own mode"},
            None,
            "The user that runs the node may not execute /venv/bin/postgres.",
            "Install Palaver again as that user, or set database.url to a running Postgres.",
        ),
        (
            {"kind": "identity", "error": "[Errno 1] not permitted"},
            NOBODY,
            "The node runs as root and may not start its Postgres as nobody ([Errno 1] not permitted).",
            "Grant it CAP_SETUID and CAP_SETGID, " + ELSE,
        ),
        (
            {"kind": "system", "error": "[Errno 28] …", "errno": errno.ENOSPC},
            None,
            "Only 4.0 KiB are free on the disk of /srv/data/postgres, and Postgres ran out of space.",
            "Free space on that disk, or set data_dir to a directory on another disk.",
        ),
        (
            {"kind": "system", "error": "[Errno 5] Input/output error", "errno": errno.EIO},
            None,
            "Postgres could not start in /srv/data/postgres: [Errno 5] Input/output error.",
            "Fix the cause and start the node again.",
        ),
        (
            {"kind": "orphan"},
            None,
            "Postgres could not start in /srv/data/postgres: orphan.",
            "Fix the cause and start the node again.",
        ),
    ],
)
def test_refusals_of_the_launcher_are_explained(
    fields: dict[str, Any], identity: Identity | None, problem: str, advice: str
) -> None:
    """A problem and an advice."""
    error = explain_refusal(fields, WHERE, 4096, identity)
    assert (error.problem, error.advice) == (problem, advice)
