"""The command line's end of the control socket."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from bridge.control.socket import FILE_NAME
from bridge.control.stream import STOPPING, End, Failure, Item, Lines, NoLine
from storage.errors import LocalError

# Seconds. Long enough for a node that is busy, short enough for a person who waits.
PATIENCE = 30.0
_JSON = {"Content-Type": "application/json"}


class NotRunning(LocalError):
    """Nobody listens on the control socket."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(f"No node is running on {data_dir}.", "`palaver run` starts one.")


class NodeGone(LocalError):
    """The node has stopped, or was killed, in the middle of a stream."""

    def __init__(self, data_dir: Path, *, has_said_so: bool) -> None:
        how = "is stopping" if has_said_so else "has gone"
        super().__init__(f"The node on {data_dir} {how}.", "Ask again when it is back.")


async def ask_node(
    data_dir: Path, command: str, arguments: dict[str, Any] | None = None, *, patience: float = PATIENCE
) -> dict[str, Any]:
    """Have the node that runs on `data_dir` carry out `command`; `patience` is in seconds."""
    limits = aiohttp.ClientTimeout(total=patience)
    async with _asked(data_dir, command, arguments, limits, patience) as response:
        return _read(data_dir, await response.read())


async def stream_node(
    data_dir: Path, command: str, arguments: dict[str, Any] | None = None, *, patience: float = PATIENCE
) -> AsyncGenerator[dict[str, Any], None]:
    """What a command says, one object after the other; `patience` is for its beginning. `NodeGone` if it was
    not the command that ended. To be closed by whoever does not read it to its end."""
    lines = Lines()
    limits = aiohttp.ClientTimeout(total=None, sock_connect=patience)
    async with _asked(data_dir, command, arguments, limits, patience) as response:
        try:
            async for data in response.content.iter_any():
                for line in lines.add(data):
                    match line:
                        case Item(value):
                            yield value
                        case Failure(problem, advice):
                            raise LocalError(problem, advice)
                        case End(because):
                            if because == STOPPING:
                                raise NodeGone(data_dir, has_said_so=True)
                            return
                        case NoLine():
                            raise _not_understood(data_dir)
        except (aiohttp.ClientPayloadError, ConnectionError):
            raise NodeGone(data_dir, has_said_so=False) from None
    raise NodeGone(data_dir, has_said_so=False)


@contextlib.asynccontextmanager
async def _asked(
    data_dir: Path,
    command: str,
    arguments: dict[str, Any] | None,
    limits: aiohttp.ClientTimeout,
    patience: float,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The beginning of an answer that is no refusal."""
    connector = aiohttp.UnixConnector(str(data_dir / FILE_NAME))
    try:
        async with aiohttp.ClientSession(connector=connector, timeout=limits) as session:
            async with asyncio.timeout(patience):
                # A stream, since a long text given whole would be warned of.
                body = io.BytesIO(json.dumps(arguments or {}).encode())
                response = await session.post(f"http://node/{command}", data=body, headers=_JSON)
            async with response:
                if response.status != 200:
                    answer = _read(data_dir, await response.read())
                    raise LocalError(str(answer.get("problem")), str(answer.get("advice")))
                yield response
    except aiohttp.ClientConnectorError as error:
        if isinstance(error.os_error, PermissionError):
            raise LocalError(
                f"The node on {data_dir} belongs to another user.",
                "Run this command as that user, or as root.",
            ) from None
        raise NotRunning(data_dir) from None
    except (aiohttp.ClientError, TimeoutError) as error:
        raise LocalError(
            f"The node on {data_dir} did not answer: {type(error).__name__}.",
            "Look at its log; if it hangs, stop it with `kill -TERM` and start it again.",
        ) from None


def _read(data_dir: Path, body: bytes) -> dict[str, Any]:
    """What a node says that fell over is no JSON."""
    try:
        answer: dict[str, Any] = json.loads(body)
    except ValueError:
        raise _not_understood(data_dir) from None
    return answer


def _not_understood(data_dir: Path) -> LocalError:
    return LocalError(
        f"The node on {data_dir} could not carry that out.", "Its log says why; please report that."
    )
