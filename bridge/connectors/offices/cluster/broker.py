"""Over a broker, processes of one node bring events to each other's connections, and tell each other what has
happened in offices: a client manager of python-socketio.

Nothing of it is the truth, which is in Postgres: what is lost while the broker is away is looked up there,
and who asked is told at once that it could not be asked.

What processes of one node say to each other over a broker: JSON, and nothing else is ever read.

Two kinds are Socket.IO's: an event for a connection of another process, and what that one acknowledges. One
kind is ours. Whatever has not the form of its kind is passed over: whoever gets at the broker can say what it
likes there.
"""

import asyncio
import itertools
import json
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from socketio.async_pubsub_manager import AsyncPubSubManager

from bridge.connectors.offices.protocol.errors import INTERNAL, flat
from bridge.connectors.offices.protocol.events import NAMESPACE
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks

EMIT: Final = "emit"
CALLBACK: Final = "callback"
OURS: Final = "palaver"
MOST_BYTES: Final = 16 * 1024 * 1024
"""What a client sends has at most one megabyte, and may become some times as long in JSON."""
LONGEST: Final = 512
_BYTES: Final = "$palaver.bytes"


@dataclass(frozen=True, slots=True)
class SocketMessage:
    """As python-socketio's managers hand it to each other."""

    said: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfficeMessage:
    """`what` has happened, as the process `by` says."""

    by: str
    what: str
    said: Mapping[str, Any]


BrokerMessage: TypeAlias = SocketMessage | OfficeMessage


def encoded(message: Mapping[str, Any]) -> bytes:
    """Raises `ValueError` for what is no JSON, or is too long."""
    try:
        said = json.dumps(_shown(message), separators=(",", ":"))
    except (TypeError, RecursionError) as wrong:
        raise ValueError(f"it is no JSON: {type(wrong).__name__}") from None
    if len(said) > MOST_BYTES:
        raise ValueError(f"it has {len(said)} bytes")
    return said.encode()


def office_message(by: str, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": OURS, "host_id": by, "what": what, "said": said}


def read(data: object) -> BrokerMessage | None:
    """None for what none of us would say."""
    if not isinstance(data, bytes) or len(data) > MOST_BYTES:
        return None
    try:
        said = _hidden(json.loads(data))
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not _is_text(said.get("host_id")):
        return None
    match said.get("method"):
        case "emit":
            return SocketMessage(said) if _is_emit(said) else None
        case "callback":
            return SocketMessage(said) if _is_callback(said) else None
        case "palaver":
            what, body = said.get("what"), said.get("said")
            if _is_text(what) and isinstance(body, dict):
                return OfficeMessage(said["host_id"], str(what), body)
    return None


def _is_emit(said: Mapping[str, Any]) -> bool:
    callback = said.get("callback")
    return (
        said.get("namespace") == NAMESPACE
        and _is_text(said.get("event"))
        and _is_text(said.get("room"))
        and isinstance(said.get("data"), list)
        and said.get("binary") is False
        and said.get("skip_sid") is None
        and (callback is None or _is_place(callback))
    )


def _is_callback(said: Mapping[str, Any]) -> bool:
    place = [said.get("sid"), said.get("namespace"), said.get("id")]
    return _is_place(place) and isinstance(said.get("args"), list)


def _is_place(said: object) -> bool:
    """Which connection, and under which number it is asked."""
    if not isinstance(said, list) or len(said) != 3:
        return False
    sid, namespace, number = said
    return _is_text(sid) and namespace == NAMESPACE and type(number) is int and number > 0


def _is_text(said: object) -> bool:
    return isinstance(said, str) and 0 < len(said) <= LONGEST


def _shown(said: Any) -> Any:
    """Bytes, which clients may send as well, in place of which JSON has text."""
    if isinstance(said, bytes | bytearray):
        return {_BYTES: b64encode(said).decode()}
    if isinstance(said, Mapping):
        return {key: _shown(value) for key, value in said.items()}
    if isinstance(said, list | tuple):
        return [_shown(value) for value in said]
    return said


def _hidden(said: Any) -> Any:
    if isinstance(said, list):
        return [_hidden(value) for value in said]
    if not isinstance(said, dict):
        return said
    if set(said) == {_BYTES} and isinstance(said[_BYTES], str):
        try:
            return b64decode(said[_BYTES], validate=True)
        except Error as wrong:
            raise ValueError(str(wrong)) from None
    return {key: _hidden(value) for key, value in said.items()}


AGAIN: Final = 1.0
"""Seconds after which a broker that was away is asked again."""
TIMEOUT: Final = 5.0
"""Seconds for saying something to it."""
MOST_WAITING: Final = 10_000
MOST_BYTES_WAITING: Final = 64 * 1024 * 1024
LAST_WORDS: Final = 2.0


class BrokerAway(Exception):
    """The sentence says why, without what is secret."""


class Link(Protocol):
    """To a broker, which takes what is said to whoever else listens in the same place."""

    async def send(self, data: bytes) -> None:
        """In the order of the calls. Raises `BrokerAway`."""
        ...

    def listen(self, began: Callable[[], None]) -> AsyncIterator[bytes]:
        """What others say; `began` is called when nothing is missed any more. Raises `BrokerAway`, and may be
        called again then."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Saying:
    """`lost` is called when it cannot be said; `keeps` it, and it is said when the broker is back."""

    data: bytes
    lost: Callable[[], None] | None = None
    keeps: bool = False


class Broker(AsyncPubSubManager):  # type: ignore[misc]  # it publishes no types
    """It is used between `start` and `close`. Whoever wants to `hear` what other processes say is told in the
    order in which each says it; `renewed`, that something may not have been heard before."""

    name = "palaver"

    def __init__(self, link: Link, report: Report) -> None:
        super().__init__(logger=_Unheard())
        self.renewed: Callable[[], None] = lambda: None
        self._heard: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self._link = link
        self._report = report
        self._waiting: asyncio.Queue[_Saying] = asyncio.Queue(MOST_WAITING)
        self._bytes_waiting = 0
        self._kept: list[_Saying] = []
        self._bytes_kept = 0
        # One for all connections of others: what one of them acknowledges late belongs to nothing newer.
        self._numbers = itertools.count(1)
        self._is_away = False
        self._there = asyncio.Event()
        self._background = BackgroundTasks()

    def initialize(self) -> None:
        """Socket.IO says so at the first connection; others are heard before."""

    async def start(self) -> None:
        """Where the broker is away, it is waited for no longer than a moment."""
        self._background.supervise("messages from the broker", self._thread)
        self._background.supervise("messages to the broker", self._send_for_ever)
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                await self._there.wait()

    async def close(self) -> None:
        """What was said before is sent, if that can be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS):
                await self._waiting.join()
        await self._background.close()
        await self._link.close()

    def hear(self, what: str, told: Callable[[Mapping[str, Any]], None]) -> None:
        """Whatever another process says of this kind: nothing is sure about what it holds."""
        self._heard[what] = told

    def say(self, what: str, said: Mapping[str, Any], *, keeps: bool = False) -> None:
        """To all other processes that are there now; or, if it `keeps`, when the broker is there again."""
        self._put(office_message(self.host_id, what, said), keeps=keeps)

    def forget(self, sid: str) -> None:
        """Nobody waits for this connection of another process any more."""
        if not self._is_here(sid):
            self.callbacks.pop(sid, None)

    # -- what Socket.IO asks of its manager --

    async def emit(
        self, event: str, data: Any, namespace: str, room: str | None = None, skip_sid: Any = None,
        callback: Callable[..., Any] | None = None, to: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """To one connection, which is here or elsewhere."""
        sid = to or room
        assert sid is not None, "nothing here is said to all"
        if kwargs.get("ignore_queue") or self._is_here(sid):
            await super().emit(
                event, data, namespace, room=sid, skip_sid=skip_sid, callback=callback, ignore_queue=True
            )
            return
        number = 0
        if callback is not None:
            self.callbacks.setdefault(sid, {0: self._numbers})
            number = self._generate_ack_id(sid, callback)
        message = {
            "method": EMIT,
            "event": event,
            "data": list(data) if isinstance(data, tuple) else [data],
            "binary": False,
            "namespace": namespace,
            "room": sid,
            "skip_sid": None,
            "callback": [sid, namespace, number] if number else None,
            "host_id": self.host_id,
        }
        self._put(message, (lambda: self._lost(sid, number)) if number else None)

    async def can_disconnect(self, sid: str, namespace: str) -> bool:
        """Each process disconnects its own."""
        return bool(self.is_connected(sid, namespace))

    async def disconnect(self, sid: str, namespace: str, **kwargs: Any) -> Any:
        return await super().disconnect(sid, namespace, ignore_queue=True)

    async def _publish(self, data: Mapping[str, Any]) -> None:
        """What a connection of ours has acknowledged, to the process that has asked it, and waits for it."""
        self._put(data, keeps=True)

    async def _listen(self) -> AsyncIterator[Mapping[str, Any]]:
        while True:
            try:
                async for data in self._link.listen(self._began):
                    message = read(data)
                    if isinstance(message, SocketMessage):
                        yield dict(message.said)
                    elif isinstance(message, OfficeMessage) and message.by != self.host_id:
                        self._hear(message)
            except BrokerAway as away:
                self._away(away)
            except Exception as error:
                self._report("What other processes of the node say could not be heard.", error)
            await asyncio.sleep(AGAIN)

    # -- inside --

    def _hear(self, message: OfficeMessage) -> None:
        told = self._heard.get(message.what)
        if told is not None:
            told(message.said)

    def _is_here(self, sid: str) -> bool:
        return any(sid in rooms.get(None, {}) for rooms in self.rooms.values())

    def _put(
        self, message: Mapping[str, Any], lost: Callable[[], None] | None = None, *, keeps: bool = False
    ) -> None:
        try:
            self._queue(_Saying(encoded(message), lost, keeps))
        except (ValueError, asyncio.QueueFull) as error:
            self._report("Something could not be said to other processes of the node.", error)
            if lost is not None:
                asyncio.get_running_loop().call_soon(lost)

    def _queue(self, saying: _Saying) -> None:
        if self._bytes_waiting + len(saying.data) > MOST_BYTES_WAITING:
            raise asyncio.QueueFull
        self._waiting.put_nowait(saying)
        self._bytes_waiting += len(saying.data)

    async def _send_for_ever(self) -> None:
        while True:
            saying = await self._waiting.get()
            try:
                async with asyncio.timeout(TIMEOUT):
                    await self._link.send(saying.data)
            except (BrokerAway, TimeoutError) as error:
                self._away(error if isinstance(error, BrokerAway) else BrokerAway("it does not answer"))
                self._drop(saying)
            except Exception as error:
                self._report("Something could not be said to other processes of the node.", error)
                self._drop(saying)
            finally:
                self._bytes_waiting -= len(saying.data)
                self._waiting.task_done()

    def _drop(self, saying: _Saying) -> None:
        """What is asked is not said later: who asked has been told by then that nothing came of it."""
        if saying.lost is not None:
            saying.lost()
        if saying.keeps and self._bytes_kept + len(saying.data) <= MOST_BYTES_WAITING:
            self._kept.append(saying)
            self._bytes_kept += len(saying.data)

    def _lost(self, sid: str, number: int) -> None:
        callback = self.callbacks.get(sid, {}).pop(number, None)
        if callback is not None:
            callback(flat(INTERNAL, "The Computer is at another process of the node, which cannot be asked"))

    def _away(self, away: BrokerAway) -> None:
        """Once, until it is back."""
        if not self._is_away:
            self._is_away = True
            self._report(f"The broker of offices is away: {away}. Its processes go on by themselves.", None)

    def _began(self) -> None:
        self._is_away = False
        self._there.set()
        kept, self._kept, self._bytes_kept = self._kept, [], 0
        for saying in kept:
            with suppress(asyncio.QueueFull):
                self._queue(saying)
        self.renewed()


class _Unheard:
    """Socket.IO's log of its manager: what goes wrong is reported here, once."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *said, **more: None
