"""A connection to a node's interface for attached agents, from the agent's side."""

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
"""Seconds for an answer."""
PING_INTERVAL: Final = 20.0

M = TypeVar("M", bound=Message)


class ConnectionClosed(Exception):
    """By whichever side. `why` is a sentence, if one was said."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class CallRefused(Exception):
    """The node does not do what it was asked to do."""

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
    """Where the node is, and as whom to go there. Without `tls` the system's authorities are believed."""

    url: str
    agent_id: str
    token: str
    tls: ssl.SSLContext | None = None

    @property
    def socket_url(self) -> URL:
        path = SOCKET.format(agent_id=quote(self.agent_id, safe=""))
        return URL(self.url.rstrip("/") + path, encoded=True)


class AgentConnection:
    """`pushed` is given what comes unasked, in its order."""

    def __init__(self, web_socket: aiohttp.ClientWebSocketResponse, pushed: Callable[[Push], None]) -> None:
        self._socket = web_socket
        self._pushed = pushed
        self._number = 0
        self._waiting: dict[int, asyncio.Future[CallAnswer]] = {}
        self._closing = "The connection was closed."

    async def call(
        self, name: str, body: Mapping[str, Any], answer: type[M], work_id: str | None = None
    ) -> M:
        """Raises `CallRefused`, or `ConnectionClosed`; then it may have been done or not."""
        assert name in OPERATIONS_BY_NAME, "there is such an operation"
        self._number += 1
        number = self._number
        call: dict[str, Any] = {"id": number, "do": name, "body": body}
        if work_id is not None:
            call["work_id"] = work_id
        loop = asyncio.get_running_loop()
        waiting = self._waiting[number] = loop.create_future()
        late = loop.call_later(CALL_TIMEOUT, _give_up, waiting)
        try:
            # A connection that takes nothing any more is closed for its pings, which ends this too.
            await self._socket.send_str(json.dumps(call))
            answered = await waiting
        except (ConnectionError, aiohttp.ClientError, TimeoutError) as error:
            raise ConnectionClosed(f"The node does not answer: {type(error).__name__}.") from error
        finally:
            late.cancel()
            del self._waiting[number]
        if answered.problem is not None:
            problem = answered.problem
            raise CallRefused(answered.status, problem.errcode, problem.error)
        return answer.model_validate(answered.answer)

    async def listen(self) -> None:
        """Raises `ConnectionClosed` in the end."""
        try:
            async for message in self._socket:
                if message.type is aiohttp.WSMsgType.TEXT:
                    self._hear(message.data)
        except (ConnectionError, aiohttp.ClientError) as error:
            self._closing = f"The connection was lost: {type(error).__name__}."
        except (ValueError, ValidationError) as error:
            self._closing = "The node says what cannot be understood."
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
    """Raises `CallRefused`, or `ConnectionClosed` when nobody is there."""
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
        advice = " A development certificate is believed with --authority and the node's tls/ca.pem."
    return ConnectionClosed(f"The node at {place.url} {problem.problem}.{advice}")


_SENTENCES: Final = {
    401: "The node does not know the token, or it is not good any more.",
    403: "The token is another agent's, or this node does not speak plain HTTP with you.",
    404: "There is no interface for agents at this address.",
}
