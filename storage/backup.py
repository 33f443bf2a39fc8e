"""Backs up a database into one file, and restores it completely or not at all.

Runs Postgres' client programs. The password is passed in the environment, never in argv.
"""

import asyncio
import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from storage.connect import DatabaseAddress
from storage.database import connect_once
from storage.durable_file import flush_directory
from storage.embedded.home import DISK_FULL_TEXTS, free_space, not_enough_space
from storage.embedded.launch import pg_dump, pg_restore, psql
from storage.errors import LocalError
from storage.statements import load

MESSAGE = re.compile(r"(?:error|ERROR|FATAL):\s*(.+)")


def psql_command(address: DatabaseAddress) -> tuple[list[str], dict[str, str]]:
    """The argument list and environment for `os.execve` of an interactive psql."""
    return [str(psql()), address.url], client_environment(address)


def client_environment(address: DatabaseAddress) -> dict[str, str]:
    """The environment of this process without the PG… variables that would select another database."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") or name.startswith(("PGSSL", "PGPASSFILE"))
    }
    if address.password is not None:
        kept["PGPASSWORD"] = address.password
    return kept


@contextlib.asynccontextmanager
async def running_program(
    program: Path, *arguments: str, address: DatabaseAddress, stdin: int | None = None, stdout: int | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program with stderr on a pipe. It is killed at the end of the context if it still runs."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=asyncio.subprocess.DEVNULL if stdout is None else stdout,
        stderr=asyncio.subprocess.PIPE,
        # The messages are parsed, so they must not be translated.
        env=client_environment(address) | {"LC_ALL": "C"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def read_messages(process: asyncio.subprocess.Process, each: Callable[[str], None]) -> str:
    """Read the program's messages to the end, pass each line to `each`, and return the last ones."""
    assert process.stderr is not None, "running_program() makes the pipe"
    last: list[str] = []
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        each(text)
        last = [*last[-20:], text]
    return "\n".join(last)


def program_failure(what: str, output: str, directory: Path) -> LocalError:
    """`what` is the beginning of the problem's sentence, `directory` that of the backup file."""
    if any(text in output for text in DISK_FULL_TEXTS):
        return not_enough_space(directory, free_space(directory), "the program ran out of space")
    found = MESSAGE.findall(output)
    reason = found[0] if found else next(reversed(output.splitlines()), "no message")
    return LocalError(f"{what}: {reason.rstrip('.')}.", "Nothing was changed; fix that and try again.")


SQL = load("storage", "backup.sql")
TABLE = re.compile(r'(?:dumping contents of|processing data for) table "(?:public\.)?(?P<name>.+)"')
CHUNK = 256 << 10
# A restored database generates a new epoch: the database that was backed up may since have given the same
# queue positions to other events.
EXCLUDE_EPOCH = "--exclude-table-data=public.outbox_epoch"
HEADER = (b"--", b"\\", b"SET ", b"SELECT pg_catalog.set_config(")  # prefixes of lines before the first object

Progress = Callable[[int, int, str], None]


async def dump(address: DatabaseAddress, file: Path, *, progress: Progress = lambda done, total, table: None) -> None:
    """Write a consistent snapshot; the node may keep running. `file` appears only when it is complete."""
    connection = await connect_once(address)
    try:
        total = await connection.fetchval(SQL.count_tables)
    finally:
        await connection.close()
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except OSError as error:
        raise LocalError(
            f"No backup can be written into {file.parent}: {error.strerror}.", "Choose a file in another directory."
        ) from None
    # A file name instead of standard output, in which pg_dump cannot seek back to write the offset of each
    # table; then a truncated file could not be detected.
    words = ("--format=custom", "--no-owner", "--no-privileges", "--verbose", f"--file={beside}", EXCLUDE_EPOCH)
    try:
        async with running_program(pg_dump(), *words, f"--dbname={address.url}", address=address) as process:
            output = await read_messages(process, progress_reporter(progress, total))
            if await process.wait() != 0:
                raise program_failure(f"The backup of {address.database} failed", output, file.parent)
        # pg_dump has already flushed the file.
        beside.rename(file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
    await asyncio.to_thread(flush_directory, file.parent)


async def restore(
    address: DatabaseAddress, file: Path, *, replace: bool = False, progress: Progress = lambda done, total, table: None
) -> None:
    """Restore the backup into the database. `replace` removes the existing content in the same
    transaction."""
    archive = existing_backup(file)
    total = await count_tables(address, archive)
    connection = await connect_once(address)
    try:
        if not replace and not await connection.fetchval(SQL.is_empty):
            raise LocalError(
                f"The database {address.database} at {address.server} is not empty, and nothing was changed.",
                "Restore into an empty database, or ask for this one to be replaced.",
            )
    finally:
        await connection.close()
    # pg_restore writes the script, psql executes it. pg_restore alone could not remove objects that are not
    # in the backup, such as tables of a later version, in the same transaction.
    script = ("--file=-", "--no-owner", "--no-privileges", "--verbose", archive)
    words = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--file=-", f"--dbname={address.url}")
    async with (
        running_program(pg_restore(), *script, address=address, stdout=asyncio.subprocess.PIPE) as reader,
        running_program(psql(), *words, address=address, stdin=asyncio.subprocess.PIPE) as writer,
    ):
        _, read_output, write_output = await asyncio.gather(
            relay_script(reader, writer, replace=replace),
            read_messages(reader, progress_reporter(progress, total)),
            read_messages(writer, lambda text: None),
        )
        reading, writing = await reader.wait(), await writer.wait()
    # Each program is killed when the other has failed; the one that exited by itself reports the reason.
    if reading > 0:
        raise program_failure(f"{file} was not restored", read_output, file.parent)
    if writing != 0:
        raise program_failure(f"{file} was not restored", write_output, file.parent)


async def relay_script(
    reader: asyncio.subprocess.Process, writer: asyncio.subprocess.Process, *, replace: bool
) -> None:
    """Pass the script on in a transaction that is committed only once the script is complete."""
    assert reader.stdout is not None, "a pipe was requested"
    assert writer.stdin is not None, "a pipe was requested"
    begin = ["BEGIN", SQL.set_lock_timeout, *([SQL.drop_everything] if replace else [])]
    try:
        writer.stdin.write("".join(f"{statement};\n" for statement in begin).encode())
        while line := await reader.stdout.readline():
            # Servers before 17 do not know this setting, and this is its default.
            if line != b"SET transaction_timeout = 0;\n":
                writer.stdin.write(line)
            if line.strip() and not line.startswith(HEADER):
                break
        while chunk := await reader.stdout.read(CHUNK):
            writer.stdin.write(chunk)
            await writer.stdin.drain()
        if await reader.wait() == 0:
            writer.stdin.write(b"COMMIT;\n")
            writer.stdin.close()
            await writer.stdin.wait_closed()
        else:
            # Closing the input would make psql treat the incomplete script as complete.
            writer.kill()
    except ConnectionError:
        # psql gave up; the server has rolled back.
        with contextlib.suppress(ProcessLookupError):
            reader.kill()


def existing_backup(file: Path) -> str:
    if not file.is_file():
        raise LocalError(f"There is no backup {file}.", "Choose a file that `palaver db dump` has written.")
    return str(file.absolute())


async def count_tables(address: DatabaseAddress, archive: str) -> int:
    """The number of tables whose rows are in a backup. Raises LocalError if the file is not a backup."""
    async with running_program(
        pg_restore(), "--list", archive, address=address, stdout=asyncio.subprocess.PIPE
    ) as process:
        assert process.stdout is not None, "a pipe was requested"
        listed, _ = await asyncio.gather(process.stdout.read(), read_messages(process, lambda text: None))
        if await process.wait() != 0:
            raise LocalError(
                f"{archive} is not a readable backup.", "Choose a file that `palaver db dump` has written."
            )
    return sum(b" TABLE DATA " in line for line in listed.splitlines())


def progress_reporter(progress: Progress, total: int) -> Callable[[str], None]:
    done = 0

    def see(message: str) -> None:
        nonlocal done
        found = TABLE.search(message)
        if found is not None:
            done += 1
            progress(done, total, found["name"])

    return see
