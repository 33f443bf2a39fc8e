"""A complete node that runs commands: one JSON object per line on standard input, and the answers on standard
output, one line each, as they are ready.

`{"id": 1, "call": "join", "with": {"room": "#kitchen:there", "user": "@alice:here"}}` is answered by `{"id":
1, "answer": …}` or by `{"id": 1, "refused": …}`. `call` is an operation of
`bridge.matrix.backend.MatrixBackend` or one of those below. Two kinds of lines answer no call: `{"heard": …}`
is an EDU, `{"follows": …}` is part of a followed stream.

It runs in the Python of the installed wheel, so it imports nothing from the tests. Configuration, log and
event loop are those of `palaver run --json`.
"""

import asyncio
import base64
import ctypes
import dataclasses
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from bridge.cli.run import event_loop_factory
from bridge.config.files import load_config
from bridge.node.homeserver_backend import HomeserverBackend
from bridge.observability.log import configure_logging
from bridge.run import Node
from federation.directory.public_rooms import from_body
from federation.matrix.errors import MatrixError, PeerError
from federation.media.thumbnail_size import Method
from federation.rooms.creation import CreateRoomRequest, InitialState
from federation.transactions.edu_dispatcher import EduUpdate, edu_type

PR_SET_PDEATHSIG = 1
LONGEST_LINE = 64 << 20
HEARD = ("m.typing", "m.receipt", "m.presence")
AT_ONCE = 100


class Driven:
    def __init__(self, node: Node) -> None:
        assert isinstance(node.backend, HomeserverBackend), "it is one itself"
        self._node = node
        self._homeserver = node.backend.homeserver
        self._rooms = self._homeserver.local_users
        self._tasks: set[asyncio.Task[None]] = set()
        self._special: dict[str, Callable[..., Awaitable[Any]]] = {
            "create_room": self.create_room,
            "download": self.download,
            "fates": self.fates,
            "follow": self.follow,
            "hierarchy": self._homeserver.spaces.hierarchy,
            "public_rooms": self.public_rooms,
            "thumbnail": self.thumbnail,
            "upload": self.upload,
        }
        for told in HEARD:
            self._rooms.listen(told, self._heard)

    def obey(self, line: bytes) -> None:
        command = json.loads(line)
        self._begin(self._answer(command["id"], command["call"], command.get("with", {})))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, name: str, arguments: Mapping[str, Any]) -> None:
        operation = self._special.get(name) or getattr(self._rooms, name)
        try:
            answer = operation(**arguments)
            if asyncio.iscoroutine(answer):
                answer = await answer
        except MatrixError as refused:
            refusal = {"errcode": refused.errcode, "error": refused.text, "status": refused.status}
            tell({"id": number, "refused": refusal})
        except PeerError as problem:
            tell({"id": number, "refused": {"errcode": None, "error": str(problem), "status": 502}})
        except Exception as bug:
            tell({"id": number, "broken": repr(bug)})
            raise
        else:
            tell({"id": number, "answer": plain(answer)})

    # -- reports --

    def _heard(self, said: EduUpdate) -> None:
        tell({"heard": edu_type(said), "said": plain(said)})

    async def follow(self, name: str) -> None:
        """Read the durable stream under this name without end. Entries are reported before the transaction
        that advances the position, and the position after it: a test that counts by position counts each
        entry once, whenever the process is killed."""
        self._begin(self._follow(name))

    async def _follow(self, name: str) -> None:
        async with self._rooms.subscription(name) as subscription:
            while True:
                entries = await subscription.next(AT_ONCE)
                tell({"follows": name, "entries": plain(entries)})
                async with self._node.database.pool.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)
                tell({"follows": name, "upto": entries[-1].position})

    # -- commands --

    async def create_room(self, *, initial_state: Sequence[Mapping[str, Any]] = (), **request: Any) -> Any:
        state = [InitialState(**one) for one in initial_state]
        return await self._rooms.create_room(CreateRoomRequest(initial_state=state, **request))

    async def upload(self, user: str, content: str, content_type: str, file_name: str | None) -> str:
        info = await self._rooms.upload(user, base64.b64decode(content), content_type, file_name)
        return str(info.mxc)

    async def download(self, mxc: str) -> Any:
        async with self._rooms.download(mxc) as opened:
            return {"info": opened.info, "content": await encoded(opened.chunks)}

    async def thumbnail(self, mxc: str, width: int, height: int, method: str) -> Any:
        opened = await self._homeserver.media.thumbnail(mxc, width, height, Method(method))
        return {"info": opened.info, "content": await encoded(opened.chunks)}

    async def public_rooms(self, server: str, search: str | None) -> Any:
        asked = {} if search is None else {"filter": {"generic_search_term": search}}
        return await self._homeserver.public_rooms.remote(server, from_body(asked, remote=True))

    async def fates(self, room_id: str) -> dict[str, tuple[str, str | None]]:
        """Return the outcome of each event of a room, and the rule that refused it."""
        async with self._node.database.pool.transaction(readonly=True) as connection:
            rows = await connection.fetch("SELECT event_id, verdict, refusal FROM events WHERE room_id = $1", room_id)
        return {row[0]: (row[1], row[2]) for row in rows}


def plain(value: Any) -> Any:
    """Convert a value to JSON types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str):
        return [plain(one) for one in value]
    return value


async def encoded(chunks: AsyncIterator[bytes]) -> str:
    return base64.b64encode(b"".join([chunk async for chunk in chunks])).decode()


def tell(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def main() -> None:
    found = load_config(None, os.environ, Path.cwd())
    configure_logging(found.config.log.model_copy(update={"format": "json"}))
    loop = asyncio.get_running_loop()
    commands = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    leave = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    node = Node(found.config)
    await node.start()
    driven = Driven(node)
    tell(node.summary())
    reading = asyncio.create_task(read(commands, driven, leave))
    await leave.wait()
    reading.cancel()
    await driven.close()
    await node.stop()
    structlog.get_logger("palaver").info("Stopped.")


async def read(commands: asyncio.StreamReader, driven: Driven, leave: asyncio.Event) -> None:
    """Read lines until the end of the input."""
    while line := await commands.readline():
        driven.obey(line)
    leave.set()


if __name__ == "__main__":
    # A test run that is killed ends none of its processes itself.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(os.environ["STARTED_BY"]):
            sys.exit("the test that started this node has ended")
    with asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        runner.run(main())
