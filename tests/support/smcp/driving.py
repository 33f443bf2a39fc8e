"""The shared part of the drivers. It runs in the published environments' Python, so it uses the standard
library only.

A line of JSON on stdin is a command, `{"id": 1, "do": "join", …}`; each is answered by one line on stdout,
`{"id": 1, "ok": …}` or `{"id": 1, "error": {…}}`, in the order in which they end. Between them are reports,
`{"event": …, "data": …}`. The process ends at the end of stdin, when its test has ended.
"""

import asyncio
import dataclasses
import hashlib
import json
import os
import sys
from typing import Any

# What the package prints must not get between our lines.
OUT = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)

# Data longer than this is reported by its beginning, its length and its digest.
LONG = 2048
# One line may hold a whole upload.
LINE = 64 * 1024 * 1024


class Driver:
    """Runs `do_<command>` for each command."""

    def __init__(self) -> None:
        self._running = set()
        self._connected = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LINE)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            task = asyncio.create_task(self._answer(json.loads(line)))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        for task in self._running:
            task.cancel()
        await self.end()

    async def end(self) -> None:
        """Release what is held, when the input ends."""

    async def _answer(self, command: dict[str, Any]) -> None:
        number = command.pop("id")
        try:
            answer = {"ok": await getattr(self, "do_" + command.pop("do"))(**command)}
        except Exception as error:
            answer = {"error": told(error)}
        self._say({"id": number, **answer})

    def report(self, event: str, data: Any = None) -> None:
        if event == "connect":
            self._connected.set()
        self._say({"event": event, "data": shortened(plain(data))})

    def _say(self, line: dict[str, Any]) -> None:
        print(json.dumps(plain(line)), file=OUT, flush=True)

    def watched(self, published: type) -> type:
        """The published class, which does what it does, and tells what it hears, answers and is answered.

        Reports are named like the event; `answer EVENT` is what it returned, `ack EVENT` what came back.
        """
        report = self.report

        class Watched(published):
            async def _trigger_event(self, event: str, namespace: str, *args: Any) -> Any:
                report(event, args[0] if args else None)
                answer = await super()._trigger_event(event, namespace, *args)
                if event.startswith("client:"):
                    report(f"answer {event}", answer)
                return answer

            async def call(self, event: str, *args: Any, **kwargs: Any) -> Any:
                answer = await super().call(event, *args, **kwargs)
                report(f"ack {event}", answer)
                return answer

        return Watched

    async def reconnect(self, client: Any) -> dict[str, Any]:
        """Cut a client's connection, as a network does, and wait until it has made another."""
        assert client.transport() == "websocket", "it has not upgraded"
        self._connected.clear()
        client.eio.ws._response.connection.transport.abort()
        await self._connected.wait()
        return {"transport": client.transport()}


def told(error: BaseException) -> dict[str, Any]:
    """Return what a caller of the published client learns about an error."""
    said = {"type": type(error).__name__, "message": str(error)}
    names = ("code", "payload", "reason", "server_version", "client_version", "min_supported", "max_supported")
    said.update({name: plain(getattr(error, name)) for name in names if getattr(error, name, None) is not None})
    cause = error
    while cause is not None:
        # python-engineio keeps the body of a refused request as the second argument.
        if len(cause.args) > 1 and isinstance(cause.args[1], dict):
            said["body"] = cause.args[1]
        cause = cause.__cause__
    return said


def plain(value: Any) -> Any:
    """Convert a value to JSON types."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def shortened(value: Any) -> Any:
    """Return the value with long texts replaced; equal values stay equal, and different ones different."""
    if isinstance(value, str) and len(value) > LONG:
        return f"{value[:32]}… {len(value)} {hashlib.sha256(value.encode()).hexdigest()}"
    if isinstance(value, dict):
        return {key: shortened(item) for key, item in value.items()}
    return [shortened(item) for item in value] if isinstance(value, list) else value
