"""The client of the control socket, used by the command line."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from bridge.control.running_nodes import FILE_NAME
from bridge.control.stream import STOPPING, End, Failure, InvalidLine, Item, LineParser
from storage.errors import LocalError

# Seconds. A busy node answers within it, and a person does not wait too long for a node that hangs.
TIMEOUT = 30.0
_JSON = {"Content-Type": "application/json"}


class NotRunning(LocalError):
    """No process listens on the control socket."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(f"No node is running on {data_dir}.", "Start it with `palaver run`.")


class NodeGone(LocalError):
    """The node stopped or was killed during a stream."""

    def __init__(self, data_dir: Path, *, is_stopping: bool) -> None:
        what = "is stopping" if is_stopping else "has ended"
        super().__init__(f"The node on {data_dir} {what}.", "Try again when it is running again.")


async def ask_node(
    data_dir: Path, command: str, arguments: dict[str, Any] | None = None, *, timeout_secs: float = TIMEOUT
) -> dict[str, Any]:
    """Send a command to the node that runs on `data_dir` and return its answer.
    Raises `LocalError`."""
    limits = aiohttp.ClientTimeout(total=timeout_secs)
    async with _request(data_dir, command, arguments, limits, timeout_secs) as response:
        return _parse(data_dir, await response.read())


async def stream_node(
    data_dir: Path, command: str, arguments: dict[str, Any] | None = None, *, timeout_secs: float = TIMEOUT
) -> AsyncGenerator[dict[str, Any], None]:
    """Send a command to the node and yield the objects of its answer. `timeout_secs` applies to the first
    one. Raises `NodeGone` if the node ends before the command. The caller must close the generator if it does
    not read it to its end."""
    parser = LineParser()
    limits = aiohttp.ClientTimeout(total=None, sock_connect=timeout_secs)
    async with _request(data_dir, command, arguments, limits, timeout_secs) as response:
        try:
            async for data in response.content.iter_any():
                for line in parser.add(data):
                    match line:
                        case Item(value):
                            yield value
                        case Failure(problem, advice):
                            raise LocalError(problem, advice)
                        case End(because):
                            if because == STOPPING:
                                raise NodeGone(data_dir, is_stopping=True)
                            return
                        case InvalidLine():
                            raise _invalid_answer(data_dir)
        except (aiohttp.ClientPayloadError, ConnectionError):
            raise NodeGone(data_dir, is_stopping=False) from None
    raise NodeGone(data_dir, is_stopping=False)


@contextlib.asynccontextmanager
async def _request(
    data_dir: Path, command: str, arguments: dict[str, Any] | None, limits: aiohttp.ClientTimeout, timeout_secs: float
) -> AsyncIterator[aiohttp.ClientResponse]:
    """Send the command and yield its successful response. Raises `LocalError` for any other."""
    connector = aiohttp.UnixConnector(str(data_dir / FILE_NAME))
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            async with asyncio.timeout(timeout_secs):
                # A stream, because aiohttp warns about a large body given as bytes.
                body = io.BytesIO(json.dumps(arguments or {}).encode())
                response = await session.post(f"http://node/{command}", data=body, headers=_JSON)
            async with response:
                if response.status != 200:
                    answer = _parse(data_dir, await response.read())
                    raise LocalError(str(answer.get("problem")), str(answer.get("advice")))
                yield response
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, PermissionError):
            raise LocalError(
                f"The node on {data_dir} belongs to another user.", "Run this command as that user, or as root."
            ) from None
        raise NotRunning(data_dir) from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise LocalError(
            f"The node on {data_dir} did not answer: {type(error).__name__}.",
            "Check the node's log. If the node hangs, stop it with `kill -TERM` and start it again.",
        ) from None


def _parse(data_dir: Path, body: bytes) -> dict[str, Any]:
    """The answer of a command that raised an unexpected exception is not JSON."""
    try:
        answer: dict[str, Any] = json.loads(body)
    except ValueError:
        raise _invalid_answer(data_dir) from None
    return answer


def _invalid_answer(data_dir: Path) -> LocalError:
    return LocalError(
        f"The command failed in the node on {data_dir}.", "The node's log has the reason. Please report it."
    )
