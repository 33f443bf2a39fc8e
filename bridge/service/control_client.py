"""The command line's end of the control socket."""

import json
from pathlib import Path
from typing import Any

import aiohttp

from bridge.service.control_socket import FILE_NAME
from storage.errors import LocalError

# Seconds. Long enough for a node that is busy, short enough for a person who waits.
PATIENCE = 30.0


class NotRunning(LocalError):
    """Nobody listens on the control socket."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(f"No node is running on {data_dir}.", "`palaver run` starts one.")


async def ask_node(
    data_dir: Path, command: str, arguments: dict[str, Any] | None = None, *, patience: float = PATIENCE
) -> dict[str, Any]:
    """Have the node that runs on `data_dir` carry out `command`; `patience` is in seconds."""
    path = data_dir / FILE_NAME
    connector = aiohttp.UnixConnector(str(path))
    try:
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=aiohttp.ClientTimeout(total=patience)
            ) as session,
            session.post(f"http://node/{command}", json=arguments or {}) as response,
        ):
            answer = _read(data_dir, await response.read())
            if response.status != 200:
                raise LocalError(str(answer.get("problem")), str(answer.get("advice")))
            return answer
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
        raise LocalError(
            f"The node on {data_dir} could not carry that out.", "Its log says why; please report that."
        ) from None
    return answer
