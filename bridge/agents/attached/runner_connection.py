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
    def is_passing(self) -> bool:
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
    """Makes calls. `pushed` is called with the node's messages in their order."""

    def __init__(self, web_socket: aiohttp.ClientWebSocketResponse, pushed: Callable[[Push], None]) -> None:
        self._socket = web_socket
        self._pushed = pushed
        self._number = 0
        self._waiting: dict[int, asyncio.Future[CallAnswer]] = {}
        self._closing = "The connection was closed."

    async def call(
        self, name: str, body: Mapping[str, Any], answer: type[M], work_id: str | None = None
    ) -> M:
        """Call an operation. Raises `CallRefused`, or `ConnectionClosed`; in the latter case the node may
        have performed it."""
        assert name in OPERATIONS_BY_NAME, "the operation exists"
        self._number += 1
        number = self._number
        call: dict[str, Any] = {"id": number, "do": name, "body": body}
        if work_id is not None:
            call["work_id"] = work_id
        loop = asyncio.get_running_loop()
        waiting = self._waiting[number] = loop.create_future()
        late = loop.call_later(CALL_TIMEOUT, _give_up, waiting)
        try:
            # A connection that accepts no data is closed when its pings time out, which ends this wait too.
            await self._socket.send_str(json.dumps(call))
            answered = await waiting
        except (ConnectionError, aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionClosed(f"The node did not answer: {type(error).__name__}.") from error
        finally:
            late.cancel()
            del self._waiting[number]
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
            waiting = None if answered.id is None else self._waiting.get(answered.id)
            if waiting is not None and not waiting.done():
                waiting.set_result(answered)
            return
        push = Push.model_validate(value)
        if push.closing is not None:
            self._closing = push.closing
        self._pushed(push)

    def _fail_all(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionClosed(self._closing))


def _give_up(waiting: "asyncio.Future[CallAnswer]") -> None:
    if not waiting.done():
        waiting.set_exception(TimeoutError())


@contextlib.asynccontextmanager
async def connect(place: AgentEndpoint, pushed: Callable[[Push], None]) -> AsyncIterator[AgentConnection]:
    """Connect to the node. Raises `CallRefused`, or `ConnectionClosed` if the node cannot be reached."""
    try:
        async with aiohttp.ClientSession() as session:
            web_socket = await _open(session, place)
            async with web_socket:
                yield AgentConnection(web_socket, pushed)
    except aiohttp.ClientError as error:
        raise _unreachable(place, error) from error


async def _open(session: aiohttp.ClientSession, place: AgentEndpoint) -> aiohttp.ClientWebSocketResponse:
    try:
        async with asyncio.timeout(CALL_TIMEOUT):
            return await session.ws_connect(
                place.socket_url,
                headers={"Authorization": f"Bearer {place.token}"},
                ssl=True if place.tls is None else place.tls,
                heartbeat=PING_INTERVAL,
                max_msg_size=MAX_BODY,
            )
    except aiohttp.WSServerHandshakeError as error:
        raise CallRefused(error.status, "", _SENTENCES.get(error.status, error.message)) from None
    except (TimeoutError, OSError) as error:
        raise _unreachable(place, error) from error


def _unreachable(place: AgentEndpoint, error: Exception) -> ConnectionClosed:
    problem = peer_error(place.url, error)
    advice = ""
    if isinstance(problem, PeerTlsFailure) and place.tls is None:
        advice = " For a development certificate use --authority with the node's tls/ca.pem."
    return ConnectionClosed(f"The node at {place.url} {problem.problem}.{advice}")


_SENTENCES: Final = {
    401: "The token is unknown, expired or revoked.",
    403: "The token belongs to another agent, or the node does not accept plain HTTP from this address.",
    404: "This URL has no API for attached agents.",
}
