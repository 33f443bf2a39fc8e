"""Postgres' own programs, run against a database."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from storage.backup import client_environment, program_failure, psql_command, read_messages, running_program
from storage.connect import DatabaseAddress
from storage.embedded.launch import psql

ADDRESS = DatabaseAddress.from_url("postgresql://me@db/x", "s3cret")


def test_a_password_travels_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule: every user of a machine can read argument lists."""
    monkeypatch.setenv("PGHOST", "elsewhere")
    monkeypatch.setenv("PGSERVICE", "elsewhere")
    monkeypatch.setenv("PGSSLROOTCERT", "/ca.pem")
    monkeypatch.setenv("TERM", "xterm")
    words, surroundings = psql_command(ADDRESS)
    assert words == [str(psql()), "postgresql://me@db/x"]
    assert surroundings["PGPASSWORD"] == "s3cret"
    assert not {"PGHOST", "PGSERVICE"} & surroundings.keys()
    assert (surroundings["PGSSLROOTCERT"], surroundings["TERM"]) == ("/ca.pem", "xterm")


def test_without_a_password_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lies around in the environment belongs to another server."""
    monkeypatch.setenv("PGPASSWORD", "other")
    assert "PGPASSWORD" not in client_environment(DatabaseAddress.from_url("postgresql://me@db/x"))


def test_psql_reaches_the_database(database_address: DatabaseAddress) -> None:
    """The argument list and environment are all that a shell needs."""
    words, surroundings = psql_command(database_address)
    done = subprocess.run(
        [*words, "-At", "-c", "SELECT current_database()"],
        check=True, env=surroundings, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == database_address.database


async def test_a_program_does_not_outlive_its_context() -> None:
    """Whoever is cancelled while a program runs leaves none behind."""
    async with running_program(Path("/bin/sleep"), "600", address=ADDRESS) as process:
        assert process.returncode is None
    assert process.returncode == -9


async def test_messages_are_shown_and_the_last_ones_kept() -> None:
    """The end of what a program says is where its reason is."""
    seen: list[str] = []
    script = "for n in $(seq 30); do echo line $n >&2; done"
    async with running_program(Path("/bin/sh"), "-c", script, address=ADDRESS) as process:
        last = await read_messages(process, seen.append)
        assert await process.wait() == 0
    assert seen == [f"line {number}" for number in range(1, 31)]
    assert last.splitlines() == seen[-21:]


async def test_standard_streams_are_given_on() -> None:
    """What is not asked for is closed to the program."""
    async with running_program(
        Path("/bin/cat"), address=ADDRESS, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    ) as process:
        output, _ = await process.communicate(b"through")
    assert output == b"through"


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (
            "pg_dump: reading\npg_dump: error: permission denied for table x.\nmore",
            "It failed: permission denied for table x.",
        ),
        ("psql:<stdin>:3: ERROR:  relation exists\nCONTEXT: y", "It failed: relation exists."),
        ("something\nlast words", "It failed: last words."),
        ("", "It failed: no message."),
    ],
)
def test_the_reason_is_in_the_sentence(output: str, problem: str, tmp_path: Path) -> None:
    """The first error is the one that matters."""
    error = program_failure("It failed", output, tmp_path)
    assert error.problem == problem
    assert error.advice == "Nothing was changed; fix that and try again."


def test_a_full_disk_is_called_one(tmp_path: Path) -> None:
    """It says how much is free, and where."""
    error = program_failure("It failed", "pg_dump: error: could not write: No space left on device", tmp_path)
    assert f"are free on the disk of {tmp_path}, and the program ran out of space." in error.problem
    assert "Free space" in error.advice
