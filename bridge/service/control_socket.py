"""The Unix socket through which the command line talks to a running node.

It lives in the data directory with mode 0600: who may open it may also read the node's keys, so nothing else
guards it.
"""

import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from storage.errors import LocalError

FILE_NAME = "palaver.sock"
# sun_path has 108 bytes on Linux, the last of them NUL; beside the final name a dot and a suffix must fit.
LONGEST_PATH = 100

Command = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class ControlSocket:
    """Serves each command as `POST /{name}`, JSON in and out."""

    def __init__(self, data_dir: Path, commands: Mapping[str, Command]) -> None:
        self.path = data_dir / FILE_NAME
        self._commands = commands
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_post("/{command}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listen()).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self.path.unlink(missing_ok=True)

    def _listen(self) -> socket.socket:
        if len(str(self.path).encode()) > LONGEST_PATH:
            raise LocalError(
                f"The path {self.path} is too long for a Unix socket.",
                f"Choose a data_dir whose path has at most {LONGEST_PATH - len(FILE_NAME) - 1} bytes.",
            )
        # Bound under another name, closed to others, and only then known by its own: at no moment can anybody
        # else connect, and a socket that a killed node left behind is simply replaced.
        beside = self.path.with_name(f".{FILE_NAME}.new")
        beside.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listening.bind(str(beside))
            beside.chmod(0o600)
            listening.listen(16)
            beside.rename(self.path)
        except BaseException:
            listening.close()
            with contextlib.suppress(FileNotFoundError):
                beside.unlink()
            raise
        return listening

    async def _answer(self, request: web.Request) -> web.Response:
        name = request.match_info["command"]
        command = self._commands.get(name)
        if command is None:
            return _problem(
                404,
                f"The running node knows no command {name!r}.",
                "It is of another version than this command line: restart it.",
            )
        try:
            body = await request.json() if request.can_read_body else {}
        except ValueError:
            body = None
        if not isinstance(body, dict):
            return _problem(400, "The body is not a JSON object.", "Send one, or nothing.")
        try:
            return web.json_response(dict(await command(body)))
        except LocalError as error:
            return _problem(409, error.problem, error.advice)


def _problem(status: int, problem: str, advice: str) -> web.Response:
    return web.json_response({"problem": problem, "advice": advice}, status=status)
