"""The Unix socket on which a running node serves the commands of the command line.

The socket is in the data directory with mode 0600. A user who can open it can also read the node's keys, so
there is no further authentication.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from bridge.control.running_nodes import FILE_NAME, announce, withdraw
from bridge.control.stream import ControlStreams, Stream
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

# sun_path has 108 bytes on Linux, the last of them NUL. The temporary name adds a dot and a suffix.
LONGEST_PATH = 100
MAX_BYTES = 4 * 1024 * 1024
"""Maximum size of a command's arguments: a prompt of 256 KiB in which every character is escaped."""

Command = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]


class ControlSocket:
    """Serves each command as `POST /{name}` with a JSON body. A command answers with JSON, a stream with
    lines of JSON."""

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
        app = web.Application(client_max_size=MAX_BYTES)
        app.router.add_post("/{command}", self._answer)
        # A stream is cancelled when its client disconnects. A command runs to its end: see `_execute`.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.SockSite(self._runner, self._listen()).start()
        announce(self.path.parent, os.environ)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._streaming.stop()
            await self._runner.cleanup()
            await self._background.close()
            self._runner = None
            self.path.unlink(missing_ok=True)
            withdraw(self.path.parent, os.environ)

    def _listen(self) -> socket.socket:
        if len(str(self.path).encode()) > LONGEST_PATH:
            raise LocalError(
                f"The path {self.path} is too long for a Unix socket.",
                f"Choose a data_dir whose path has at most {LONGEST_PATH - len(FILE_NAME) - 1} bytes.",
            )
        # The socket is bound under a temporary name, restricted to its owner and then renamed: no other user
        # can connect at any moment, and the socket of a killed node is replaced.
        temporary = self.path.with_name(f".{FILE_NAME}.new")
        temporary.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            listening.bind(str(temporary))
            temporary.chmod(0o600)
            listening.listen(16)
            temporary.rename(self.path)
        except BaseException:
            listening.close()
            with contextlib.suppress(FileNotFoundError):
                temporary.unlink()
            raise
        return listening

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["command"]
        command, stream = self._commands.get(name), self._streams.get(name)
        if command is None and stream is None:
            return _problem(
                404,
                f"The running node has no command {name!r}.",
                "The node has another version than this command line: restart it.",
            )
        try:
            body = await request.json() if request.can_read_body else {}
        except ValueError:
            body = None
        except web.HTTPRequestEntityTooLarge:
            return _problem(413, "The command's arguments are too large.", f"Send at most {MAX_BYTES} bytes.")
        if not isinstance(body, dict):
            return _problem(400, "The body is not a JSON object.", "Send a JSON object or no body.")
        try:
            if stream is not None:
                return await self._streaming.answer(request, stream, body)
            assert command is not None, "the name is either a command or a stream"
            return web.json_response(dict(await self._execute(command, body)))
        except LocalError as error:
            return _problem(409, error.problem, error.advice)

    async def _execute(self, command: Command, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run the command to its end, even if the client disconnects."""

        async def work() -> Mapping[str, Any]:
            return await command(given)

        # An error is returned as the answer, so the background task does not report it.
        return await asyncio.shield(self._background.spawn("command of the operator", work(), reports=False))


def _problem(status: int, problem: str, advice: str) -> web.Response:
    return web.json_response({"problem": problem, "advice": advice}, status=status)
