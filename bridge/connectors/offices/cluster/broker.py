"""Connects the processes of one node through a message broker, as a client manager of python-socketio.

Processes deliver Socket.IO events to each other's connections and notify each other of changes in offices.
The broker holds no state: Postgres does. What is lost while the broker is unavailable is read from Postgres
later, and a request that could not be sent is answered at once.

Messages are JSON; nothing else is decoded. Two kinds are Socket.IO's: an event for a connection of another
process, and that connection's acknowledgement. The third kind is Palaver's own. Messages of another form are
ignored, since anyone with access to the broker can publish there.
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

from bridge.connectors.offices.protocol.errors import INTERNAL, flat_error
from bridge.connectors.offices.protocol.events import NAMESPACE
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks

EMIT: Final = "emit"
CALLBACK: Final = "callback"
OFFICE_METHOD: Final = "palaver"
MAX_BYTES: Final = 16 * 1024 * 1024
"""A client's frame has at most one megabyte, and JSON escapes can multiply its size."""
MAX_TEXT_LENGTH: Final = 512
_BYTES: Final = "$palaver.bytes"


@dataclass(frozen=True, slots=True)
class SocketMessage:
    """A message between python-socketio's client managers."""

    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OfficeMessage:
    """A notification of `kind` from another process."""

    sender: str
    kind: str
    content: Mapping[str, Any]


BrokerMessage: TypeAlias = SocketMessage | OfficeMessage


def encode(message: Mapping[str, Any]) -> bytes:
    """Raises `ValueError` if the message cannot be written as JSON, or is too large."""
    try:
        text = json.dumps(_encode_bytes(message), separators=(",", ":"))
    except (TypeError, RecursionError) as wrong:
        raise ValueError(f"it cannot be written as JSON: {type(wrong).__name__}") from None
    if len(text) > MAX_BYTES:
        raise ValueError(f"it has {len(text)} bytes")
    return text.encode()


def office_message(sender: str, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"method": OFFICE_METHOD, "host_id": sender, "what": kind, "said": content}


def decode(data: object) -> BrokerMessage | None:
    """None for data that no process of this node sends."""
    if not isinstance(data, bytes) or len(data) > MAX_BYTES:
        return None
    try:
        message = _decode_bytes(json.loads(data))
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not _is_text(message.get("host_id")):
        return None
    match message.get("method"):
        case "emit":
            return SocketMessage(message) if _is_emit(message) else None
        case "callback":
            return SocketMessage(message) if _is_callback(message) else None
        case "palaver":
            kind, content = message.get("what"), message.get("said")
            if _is_text(kind) and isinstance(content, dict):
                return OfficeMessage(message["host_id"], str(kind), content)
    return None


def _is_emit(message: Mapping[str, Any]) -> bool:
    callback = message.get("callback")
    return (
        message.get("namespace") == NAMESPACE
        and _is_text(message.get("event"))
        and _is_text(message.get("room"))
        and isinstance(message.get("data"), list)
        and message.get("binary") is False
        and message.get("skip_sid") is None
        and (callback is None or _is_callback_key(callback))
    )


def _is_callback(message: Mapping[str, Any]) -> bool:
    key = [message.get("sid"), message.get("namespace"), message.get("id")]
    return _is_callback_key(key) and isinstance(message.get("args"), list)


def _is_callback_key(value: object) -> bool:
    """A connection id, the namespace, and the number of the acknowledgement."""
    if not isinstance(value, list) or len(value) != 3:
        return False
    sid, namespace, number = value
    return _is_text(sid) and namespace == NAMESPACE and type(number) is int and number > 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= MAX_TEXT_LENGTH


def _encode_bytes(value: Any) -> Any:
    """Clients may send bytes, which JSON does not have: they are written as base64 in an object."""
    if isinstance(value, bytes | bytearray):
        return {_BYTES: b64encode(value).decode()}
    if isinstance(value, Mapping):
        return {key: _encode_bytes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode_bytes(item) for item in value]
    return value


def _decode_bytes(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_bytes(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {_BYTES} and isinstance(value[_BYTES], str):
        try:
            return b64decode(value[_BYTES], validate=True)
        except Error as wrong:
            raise ValueError(str(wrong)) from None
    return {key: _decode_bytes(item) for key, item in value.items()}


RETRY_DELAY: Final = 1.0
"""Seconds until an unavailable broker is tried again."""
SEND_TIMEOUT: Final = 5.0
"""Seconds for sending one message."""
MAX_QUEUED: Final = 10_000
MAX_QUEUED_BYTES: Final = 64 * 1024 * 1024
CLOSE_TIMEOUT: Final = 2.0


class BrokerUnavailable(Exception):
    """The message gives the reason without any secrets."""


class Link(Protocol):
    """A connection to a broker, which delivers each message to all other listeners of this node's channel."""

    async def send(self, data: bytes) -> None:
        """Messages are sent in the order of the calls. Raises `BrokerUnavailable`."""
        ...

    def listen(self, on_subscribed: Callable[[], None]) -> AsyncIterator[bytes]:
        """Yield the messages of other processes. `on_subscribed` is called when all messages from then on
        will be received. Raises `BrokerUnavailable`; it may be called again after that."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """`on_lost` is called if the message cannot be sent. With `retry` it is sent when the broker is available
    again."""

    data: bytes
    on_lost: Callable[[], None] | None = None
    retry: bool = False


class Broker(AsyncPubSubManager):  # type: ignore[misc]  # it publishes no types
    """Used between `start` and `close`. Subscribers receive the messages of each process in order.
    `on_reconnected` is called when messages may have been missed."""

    name = "palaver"

    def __init__(self, link: Link, report: Report) -> None:
        super().__init__(logger=_NullLogger())
        self.on_reconnected: Callable[[], None] = lambda: None
        self._subscribers: dict[str, Callable[[Mapping[str, Any]], None]] = {}
        self._link = link
        self._report = report
        self._queue: asyncio.Queue[_Outgoing] = asyncio.Queue(MAX_QUEUED)
        self._queued_bytes = 0
        self._deferred: list[_Outgoing] = []
        self._deferred_bytes = 0
        # One counter for all remote connections, so that a late acknowledgement matches no newer callback.
        self._numbers = itertools.count(1)
        self._is_unavailable = False
        self._subscribed = asyncio.Event()
        self._background = BackgroundTasks()

    def initialize(self) -> None:
        """Socket.IO calls this at the first connection. Messages are read earlier, from `start` on."""

    async def start(self) -> None:
        """Wait until messages are received, but not long: the broker may be unavailable."""
        self._background.supervise("messages from the broker", self._thread)
        self._background.supervise("messages to the broker", self._send_queued)
        with suppress(TimeoutError):
            async with asyncio.timeout(SEND_TIMEOUT):
                await self._subscribed.wait()

    async def close(self) -> None:
        """Queued messages are sent first if the broker is available."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._queue.join()
        await self._background.close()
        await self._link.close()

    def subscribe(self, kind: str, handler: Callable[[Mapping[str, Any]], None]) -> None:
        """Call `handler` with the content of each message of this kind from another process. The content may
        have any form."""
        self._subscribers[kind] = handler

    def publish(self, kind: str, content: Mapping[str, Any], *, retry: bool = False) -> None:
        """Send a message to all other connected processes; with `retry`, once the broker is available
        again."""
        self._enqueue(office_message(self.host_id, kind, content), retry=retry)

    def drop_callbacks(self, sid: str) -> None:
        """Answers of this connection, which belongs to another process, are no longer awaited."""
        if not self._is_here(sid):
            self.callbacks.pop(sid, None)

    # -- the interface of Socket.IO's client manager --

    async def emit(
        self, event: str, data: Any, namespace: str, room: str | None = None, skip_sid: Any = None,
        callback: Callable[..., Any] | None = None, to: str | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        """Emit to one connection of this or another process."""
        sid = to or room
        assert sid is not None, "events are sent to single connections only"
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
        self._enqueue(message, (lambda: self._answer_lost(sid, number)) if number else None)

    async def can_disconnect(self, sid: str, namespace: str) -> bool:
        """A process disconnects only its own connections."""
        return bool(self.is_connected(sid, namespace))

    async def disconnect(self, sid: str, namespace: str, **kwargs: Any) -> Any:
        return await super().disconnect(sid, namespace, ignore_queue=True)

    async def _publish(self, data: Mapping[str, Any]) -> None:
        """Send the acknowledgement of a local connection to the process that waits for it."""
        self._enqueue(data, retry=True)

    async def _listen(self) -> AsyncIterator[Mapping[str, Any]]:
        while True:
            try:
                async for data in self._link.listen(self._on_subscribed):
                    message = decode(data)
                    if isinstance(message, SocketMessage):
                        yield dict(message.content)
                    elif isinstance(message, OfficeMessage) and message.sender != self.host_id:
                        self._dispatch(message)
            except BrokerUnavailable as reason:
                self._report_unavailable(reason)
            except Exception as error:
                self._report("Failed to receive messages of other processes of the node.", error)
            self._subscribed.clear()
            await asyncio.sleep(RETRY_DELAY)

    # -- internals --

    def _dispatch(self, message: OfficeMessage) -> None:
        handler = self._subscribers.get(message.kind)
        if handler is not None:
            handler(message.content)

    def _is_here(self, sid: str) -> bool:
        return any(sid in rooms.get(None, {}) for rooms in self.rooms.values())

    def _enqueue(
        self, message: Mapping[str, Any], on_lost: Callable[[], None] | None = None, *, retry: bool = False
    ) -> None:
        try:
            self._put(_Outgoing(encode(message), on_lost, retry))
        except (ValueError, asyncio.QueueFull) as error:
            self._report("Failed to send a message to other processes of the node.", error)
            if on_lost is not None:
                asyncio.get_running_loop().call_soon(on_lost)

    def _put(self, outgoing: _Outgoing) -> None:
        if self._queued_bytes + len(outgoing.data) > MAX_QUEUED_BYTES:
            raise asyncio.QueueFull
        self._queue.put_nowait(outgoing)
        self._queued_bytes += len(outgoing.data)

    async def _send_queued(self) -> None:
        while True:
            outgoing = await self._queue.get()
            try:
                if outgoing.on_lost is not None and not self._subscribed.is_set():
                    self._drop(outgoing)  # its answer would not be received
                    continue
                async with asyncio.timeout(SEND_TIMEOUT):
                    await self._link.send(outgoing.data)
            except (BrokerUnavailable, TimeoutError) as error:
                reason = error if isinstance(error, BrokerUnavailable) else BrokerUnavailable("it does not answer")
                self._report_unavailable(reason)
                self._drop(outgoing)
            except Exception as error:
                self._report("Failed to send a message to other processes of the node.", error)
                self._drop(outgoing)
            finally:
                self._queued_bytes -= len(outgoing.data)
                self._queue.task_done()

    def _drop(self, outgoing: _Outgoing) -> None:
        """Requests are not sent later: their callers have received an error by then."""
        if outgoing.on_lost is not None:
            outgoing.on_lost()
        if outgoing.retry and self._deferred_bytes + len(outgoing.data) <= MAX_QUEUED_BYTES:
            self._deferred.append(outgoing)
            self._deferred_bytes += len(outgoing.data)

    def _answer_lost(self, sid: str, number: int) -> None:
        callback = self.callbacks.get(sid, {}).pop(number, None)
        if callback is not None:
            callback(
                flat_error(INTERNAL, "The Computer is connected to another process of the node, which is unreachable")
            )

    def _report_unavailable(self, reason: BrokerUnavailable) -> None:
        """Report it once until the broker is available again."""
        if not self._is_unavailable:
            self._is_unavailable = True
            self._report(
                f"The broker of offices is unavailable: {reason}. Calls between processes fail until it is back.", None
            )

    def _on_subscribed(self) -> None:
        self._is_unavailable = False
        self._subscribed.set()
        deferred, self._deferred, self._deferred_bytes = self._deferred, [], 0
        for outgoing in deferred:
            with suppress(asyncio.QueueFull):
                self._put(outgoing)
        self.on_reconnected()


class _NullLogger:
    """Replaces the client manager's logger: failures are reported here, once."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: None
