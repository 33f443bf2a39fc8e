"""Runs Postgres' own client programs. A password travels in the environment, never in argv."""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from storage.address import DatabaseAddress
from storage.embedded.space import FULL_TEXTS, free_space, too_little
from storage.embedded.tools import psql
from storage.errors import LocalError

MESSAGE = re.compile(r"(?:error|ERROR|FATAL):\s*(.+)")


def psql_command(address: DatabaseAddress) -> tuple[list[str], dict[str, str]]:
    """The argument list and environment of an interactive shell, to become by `os.execve`."""
    return [str(psql()), address.url], environment(address)


def environment(address: DatabaseAddress) -> dict[str, str]:
    """This process' own, without the PG… variables that would lead a program to some other database."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PG") or name.startswith(("PGSSL", "PGPASSFILE"))
    }
    if address.password is not None:
        kept["PGPASSWORD"] = address.password
    return kept


@contextlib.asynccontextmanager
async def running(
    program: Path,
    *arguments: str,
    address: DatabaseAddress,
    stdin: int | None = None,
    stdout: int | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program with its errors on a pipe, which does not outlive the context."""
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=asyncio.subprocess.DEVNULL if stdout is None else stdout,
        stderr=asyncio.subprocess.PIPE,
        # The messages are read by programs here, so they have to be the untranslated ones.
        env=environment(address) | {"LC_ALL": "C"},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def messages(process: asyncio.subprocess.Process, each: Callable[[str], None]) -> str:
    """Reads the program's messages to the end, showing `each`, and returns the last ones."""
    assert process.stderr is not None, "running() makes the pipe"
    last: list[str] = []
    async for line in process.stderr:
        text = line.decode(errors="replace").rstrip()
        each(text)
        last = [*last[-20:], text]
    return "\n".join(last)


def failure(what: str, output: str, directory: Path) -> LocalError:
    """`what` is the beginning of the sentence, `directory` where the file is read or written."""
    if any(text in output for text in FULL_TEXTS):
        return too_little(directory, free_space(directory), "the program ran out of room")
    found = MESSAGE.findall(output)
    reason = found[0] if found else next(reversed(output.splitlines()), "it said nothing")
    return LocalError(f"{what}: {reason.rstrip('.')}.", "Nothing was changed; put that right and try again.")
