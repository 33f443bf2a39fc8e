"""The WebSocket connection from an attached program to its node."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

import aiohttp
import orjson
from pydantic import ValidationError
from yarl import URL

from bridge.agents.attached.messages import MAX_BODY, OPERATIONS_BY_NAME, SOCKET, CallAnswer, Message, Push
from federation.client.errors import PeerTlsFailure, peer_error

CALL_TIMEOUT: Final = 30.0
"""Seconds to wait for an answer."""
PING_INTERVAL: Final = 20.0

M = TypeVar("M", bound=Message)


class ConnectionClosed(Exception):
    """Either side closed the connection. `why` is a sentence."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class CallRefused(Exception):
    """The node refused a call or the connection."""

    def __init__(self, status: int, errcode: str, sentence: str) -> None:
        super().__init__(f"{status} {errcode}: {sentence}")
        self.status = status
        self.errcode = errcode
        self.sentence = sentence

    @property
    def is_temporary(self) -> bool:
        return self.status in {408, 429} or self.status >= 500


@dataclass(frozen=True, slots=True)
class AgentEndpoint:
    """The node's URL, the agent's id and its token. Without `tls` the system's certificate authorities are
    used."""

    url: str
    agent_id: str
    token: str
    tls: ssl.SSLContext | None = None

    @property
    def socket_url(self) -> URL:
        path = SOCKET.format(agent_id=quote(self.agent_id, safe=""))
        return URL(self.url.rstrip("/") + path, encoded=True)


class AgentConnection:
    """Makes calls. `on_push` is called with the node's messages in their order."""

    def __init__(self, web_socket: aiohttp.ClientWebSocketResponse, on_push: Callable[[Push], None]) -> None:
        self._socket = web_socket
        self._on_push = on_push
        self._last_id = 0
        self._calls: dict[int, asyncio.Future[CallAnswer]] = {}
        self._closing = "The connection was closed."

    async def call(self, name: str, body: Mapping[str, Any], answer: type[M], work_id: str | None = None) -> M:
        """Call an operation. Raises `CallRefused`, or `ConnectionClosed`; in the latter case the node may
        have performed it."""
        assert name in OPERATIONS_BY_NAME, "the operation exists"
        self._last_id += 1
        number = self._last_id
        call: dict[str, Any] = {"id": number, "do": name, "body": body}
        if work_id is not None:
            call["work_id"] = work_id
        loop = asyncio.get_running_loop()
        waiting = self._calls[number] = loop.create_future()
        late = loop.call_later(CALL_TIMEOUT, _time_out, waiting)
        try:
            # A connection that accepts no data is closed when its pings time out, which ends this wait too.
            await self._socket.send_str(json.dumps(call))
            answered = await waiting
        except (ConnectionError, aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionClosed(f"The node did not answer: {type(error).__name__}.") from error
        finally:
            late.cancel()
            del self._calls[number]
        if answered.problem is not None:
            problem = answered.problem
            raise CallRefused(answered.status, problem.errcode, problem.error)
        return answer.model_validate(answered.answer)

    async def listen(self) -> None:
        """Read messages until `ConnectionClosed` is raised."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._hear(message.data)
        except (ConnectionError, aiohttp.ClientError) as error:
            self._closing = f"The connection was lost: {type(error).__name__}."
        except (ValueError, ValidationError) as error:
            self._closing = "The node sent an invalid message."
            raise ConnectionClosed(self._closing) from error
        finally:
            self._fail_all()
        raise ConnectionClosed(self._closing)

    def _hear(self, text: str) -> None:
        value = orjson.loads(text)
        if isinstance(value, dict) and "id" in value:
            answered = CallAnswer.model_validate(value)
            waiting = None if answered.id is None else self._calls.get(answered.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answered)
            return
        push = Push.model_validate(value)
        if push.closing is not None:
            self._closing = push.closing
        self._on_push(push)

    def _fail_all(self) -> None:
        for waiting in self._calls.values():
            if not waiting.done():
                waiting.set_exception(ConnectionClosed(self._closing))


def _time_out(waiting: "asyncio.Future[CallAnswer]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


@contextlib.asynccontextmanager
async def connect(endpoint: AgentEndpoint, on_push: Callable[[Push], None]) -> AsyncIterator[AgentConnection]:
    """Connect to the node. Raises `CallRefused`, or `ConnectionClosed` if the node cannot be reached."""
    try:
        async with aiohttp.ClientSession() as session:
            web_socket = await _open(session, endpoint)
            async with web_socket:
                yield AgentConnection(web_socket, on_push)
    except aiohttp.ClientError as error:
        raise _unreachable(endpoint, error) from error


async def _open(session: aiohttp.ClientSession, endpoint: AgentEndpoint) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            return await session.ws_connect(
                endpoint.socket_url,
                headers={"Authorization": f"Bearer {endpoint.token}"},
                ssl=True if endpoint.tls is None else endpoint.tls,
                heartbeat=PING_INTERVAL,
                max_msg_size=MAX_BODY,
            )
    except aiohttp.WSServerHandshakeError as error:
        raise CallRefused(error.status, "", _STATUS_SENTENCES.get(error.status, error.message)) from None
    except (TimeoutError, OSError) as error:
        raise _unreachable(endpoint, error) from error


def _unreachable(endpoint: AgentEndpoint, error: Exception) -> ConnectionClosed:
    problem = peer_error(endpoint.url, error)
    advice = ""
    if isinstance(problem, PeerTlsFailure) and endpoint.tls is None:
        advice = " For a development certificate use --authority with the node's tls/ca.pem."
    return ConnectionClosed(f"The node at {endpoint.url} {problem.problem}.{advice}")


_STATUS_SENTENCES: Final = {
    401: "The token is unknown, expired or revoked.",
    403: "The token belongs to another agent, or the node does not accept plain HTTP from this address.",
    404: "This URL has no API for attached agents.",
}
