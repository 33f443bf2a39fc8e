"""The Unix socket through which the command line talks to a running node.

It lives in the data directory with mode 0600: who may open it may also read the node's keys, so nothing else
guards it.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from bridge.control.stream import ControlStreams, Stream
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

FILE_NAME = "palaver.sock"
# sun_path has 108 bytes on Linux, the last of them NUL; beside the final name a dot and a suffix must fit.
LONGEST_PATH = 100
MOST_BYTES = 4 * 1024 * 1024
"""Of what a command is given: a prompt of a quarter of a megabyte, with each of its characters escaped."""

Command = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class ControlSocket:
    """Serves each command as `POST /{name}`, JSON in and out; a stream as lines of JSON."""

    def __init__(
        self, data_dir: Path, commands: Mapping[str, Command], streams: Mapping[str, Stream] | None = None
    ) -> None:
        self.path = data_dir / FILE_NAME
        self._commands = commands
        self._streams = streams or {}
        self._streaming = ControlStreams()
        self._background = BackgroundTasks()
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=MOST_BYTES)
        app.router.add_post("/{command}", self._answer)
        # A stream ends with its asker; what a command has begun it finishes all the same.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listen()).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._streaming.stop()
            await self._runner.cleanup()
            await self._background.close()
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

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["command"]
        command, stream = self._commands.get(name), self._streams.get(name)
        if command is None and stream is None:
            return _problem(
                404,
                f"The running node knows no command {name!r}.",
                "It is of another version than this command line: restart it.",
            )
        try:
            body = await request.json() if request.can_read_body else {}
        except ValueError:
            body = None
        except web.HTTPRequestEntityTooLarge:
            return _problem(413, "The command was given too much.", f"Send {MOST_BYTES} bytes at most.")
        if not isinstance(body, dict):
            return _problem(400, "The body is not a JSON object.", "Send one, or nothing.")
        try:
            if stream is not None:
                return await self._streaming.answer(request, stream, body)
            assert command is not None, "it is the one or the other"
            return web.json_response(dict(await self._carry_out(command, body)))
        except LocalError as error:
            return _problem(409, error.problem, error.advice)

    async def _carry_out(self, command: Command, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """To its end, whether or not the asker waits for it."""

        async def work() -> Mapping[str, Any]:
            return await command(given)

        # Its error is the answer, or the asker is not there any more.
        return await asyncio.shield(self._background.spawn("command of the operator", work(), reports=False))


def _problem(status: int, problem: str, advice: str) -> web.Response:
    return web.json_response({"problem": problem, "advice": advice}, status=status)
