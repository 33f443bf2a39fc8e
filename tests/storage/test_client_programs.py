"""The client programs of Postgres."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from storage.backup import client_environment, program_failure, psql_command, read_messages, running_program
from storage.connect import DatabaseAddress
from storage.embedded.launch import psql

ADDRESS = DatabaseAddress.from_url("postgresql://me@db/x", "s3cret")


def test_a_password_is_passed_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """All users of a machine can read argument lists."""
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
    """A password in the environment of the node belongs to another server."""
    monkeypatch.setenv("PGPASSWORD", "other")
    assert "PGPASSWORD" not in client_environment(DatabaseAddress.from_url("postgresql://me@db/x"))


def test_psql_connects_to_the_database(database_address: DatabaseAddress) -> None:
    """The argument list and environment are all that it needs."""
    words, surroundings = psql_command(database_address)
    done = subprocess.run(
        [*words, "-At", "-c", "SELECT current_database()"],
        check=True, env=surroundings, capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.strip() == database_address.database


async def test_a_program_does_not_outlive_its_context() -> None:
    """It is killed when the caller is cancelled."""
    async with running_program(Path("/bin/sleep"), "600", address=ADDRESS) as process:
        assert process.returncode is None
    assert process.returncode == -9


async def test_messages_are_passed_on_and_the_last_ones_returned() -> None:
    """The last messages contain the reason of a failure."""
    seen: list[str] = []
    script = "for n in $(seq 30); do echo line $n >&2; done"
    async with running_program(Path("/bin/sh"), "-c", script, address=ADDRESS) as process:
        last = await read_messages(process, seen.append)
        assert await process.wait() == 0
    assert seen == [f"line {number}" for number in range(1, 31)]
    assert last.splitlines() == seen[-21:]


async def test_standard_streams_are_passed_to_the_program() -> None:
    """Streams that are not requested are closed."""
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
def test_an_error_contains_the_reason(output: str, problem: str, tmp_path: Path) -> None:
    """The first error message is used."""
    error = program_failure("It failed", output, tmp_path)
    assert error.problem == problem
    assert error.advice == "Nothing was changed; fix that and try again."


def test_a_full_disk_is_reported_as_such(tmp_path: Path) -> None:
    """The error contains the free space and the directory."""
    error = program_failure("It failed", "pg_dump: error: could not write: No space left on device", tmp_path)
    assert f"are free on the disk of {tmp_path}, and the program ran out of space." in error.problem
    assert "Free space" in error.advice
