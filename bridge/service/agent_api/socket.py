"""The interface through a WebSocket: calls as over HTTP, and tasks that come by themselves.

Of one agent one socket brings tasks, the one on which its newest session has registered last.
"""

import asyncio
import contextlib
from typing import Any, Final

from aiohttp import WSCloseCode, WSMsgType, web

from bridge.agent_api.messages import (
    LONGEST_WAIT,
    MOST_BODY,
    Call,
    CallAnswer,
    Message,
    Problem,
    Push,
    Registered,
    Said,
)
from bridge.agent_api.operations import BY_NAME, SOCKET, Operation
from bridge.agent_api.reading import read, read_json
from bridge.agent_api.writing import call_answer, push
from bridge.agent_tokens import Token
from bridge.service.agent_api.doing import do
from bridge.service.agent_api.services import SERVICES, AgentServices
from bridge.service.agents.tokens import Holder
from federation.errors import MatrixError
from storage.connecting import ConnectionLost

PING: Final = 20.0
"""Seconds. A connection on which nothing comes back is closed."""
RETRY: Final = 1.0
TURNS: Final = 2
"""Of the event loop, before a call is answered: what was done is committed, and what follows from it is sent
to whoever waits for it at another node first."""
CALLS: Final = frozenset(BY_NAME) - {"take"}


class Sockets:
    """Those that are open, to be closed when the node stops or a token is revoked."""

    def __init__(self) -> None:
        self._open: set[AgentSocket] = set()
        self._bringing: dict[str, AgentSocket] = {}

    def add(self, socket: "AgentSocket") -> None:
        self._open.add(socket)

    def remove(self, socket: "AgentSocket") -> None:
        self._open.discard(socket)
        if self._bringing.get(socket.agent_id) is socket:
            del self._bringing[socket.agent_id]

    def bring(self, socket: "AgentSocket") -> None:
        """From now on this one brings the agent its tasks."""
        before = self._bringing.get(socket.agent_id)
        if before is not None and before is not socket:
            before.leave("Another connection has taken the place of this one.", WSCloseCode.POLICY_VIOLATION)
        self._bringing[socket.agent_id] = socket

    def revoked(self, token_id: str) -> None:
        for socket in list(self._open):
            if socket.token_id == token_id:
                socket.leave("The token was revoked.", WSCloseCode.POLICY_VIOLATION)

    def close(self) -> None:
        for socket in list(self._open):
            socket.leave("The node is stopping.", WSCloseCode.GOING_AWAY)


SOCKETS: Final = web.AppKey("AGENT_SOCKETS", Sockets)


class AgentSocket:
    def __init__(
        self,
        services: AgentServices,
        sockets: Sockets,
        web_socket: web.WebSocketResponse,
        token: Token,
        holder: Holder,
    ) -> None:
        self._services = services
        self._sockets = sockets
        self._socket = web_socket
        self._token = token
        self._holder = holder
        self._session: str | None = None
        self._working: dict[str, None] = {}
        self._bringing: asyncio.Task[None] | None = None
        self._leaving: asyncio.Task[None] | None = None

    @property
    def agent_id(self) -> str:
        return self._holder.agent_id

    @property
    def token_id(self) -> str:
        return self._holder.token_id

    async def run(self) -> None:
        """Until one side closes it."""
        self._sockets.add(self)
        silence = self._services.agents.limits.silence
        try:
            while True:
                # Pings keep a connection, but not an agent.
                message = await self._socket.receive(timeout=silence)
                if message.type is WSMsgType.TEXT:
                    await self._socket.send_str(await self._answer(message.data))
                elif message.type is WSMsgType.BINARY:
                    await self._socket.close(code=WSCloseCode.UNSUPPORTED_DATA, message=b"Text, please.")
                else:
                    return
        except (TimeoutError, ConnectionError):
            return
        finally:
            self._sockets.remove(self)
            tasks = [task for task in (self._bringing, self._leaving) if task is not None]
            if self._bringing is not None:
                self._bringing.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def leave(self, why: str, code: int, errcode: str | None = None) -> None:
        if self._leaving is None:
            self._leaving = asyncio.create_task(self._close(why, code, errcode))

    async def _close(self, why: str, code: int, errcode: str | None) -> None:
        if self._bringing is not None:
            self._bringing.cancel()
        with contextlib.suppress(ConnectionError):
            closing = Push(closing=why, errcode=errcode)
            await self._socket.send_str(closing.model_dump_json(exclude_defaults=True))
            await self._socket.close(code=code)

    # -- calls --

    async def _answer(self, text: str) -> str:
        number: int | None = None
        try:
            value = read_json(text)
            number = _number(value)
            call = read(Call, value)
            operation = BY_NAME[call.do] if call.do in CALLS else None
            if operation is None:
                raise MatrixError("M_UNRECOGNIZED", f"There are: {', '.join(sorted(CALLS))}.", 404)
            if operation.of_task and call.work_id is None:
                raise MatrixError("M_BAD_JSON", "work_id: is missing.", 400, fields={"field": "work_id"})
            answer = await self._do(operation, call)
            for _ in range(TURNS):
                await asyncio.sleep(0)
        except MatrixError as error:
            problem = CallAnswer(id=number, problem=Problem(**error.body()), status=error.status)
            return problem.model_dump_json()
        return call_answer(call.id, answer)

    async def _do(self, operation: Operation, call: Call) -> Message:
        if operation.name == "register" and await self._services.tokens.holder(self._token) is None:
            raise MatrixError("M_UNKNOWN_TOKEN", "The token is not good any more.", 401)
        if operation.name == "unregister" and self._bringing is not None:
            # It would take the end of the session for somebody else's doing, and leave before the answer.
            self._bringing.cancel()
            self._session = None
        answer = await do(self._services, self._holder, operation, call.body, call.work_id or "")
        if isinstance(answer, Registered):
            self._working = dict.fromkeys(one.work_id for one in answer.working)
            self._bring(call.body["session"])
        elif isinstance(answer, Said) and (not answer.wanted or operation.name in {"finish", "fail"}):
            self._working.pop(call.work_id or "", None)
        return answer

    # -- tasks --

    def _bring(self, session: str) -> None:
        self._sockets.bring(self)
        if self._session != session:
            if self._bringing is not None:
                self._bringing.cancel()
            self._session = session
            self._bringing = asyncio.create_task(self._bring_tasks(session))

    async def _bring_tasks(self, session: str) -> None:
        while True:
            try:
                task, cancelled = await self._services.work.take(
                    self.agent_id, session, LONGEST_WAIT, list(self._working)
                )
            except ConnectionLost:
                await asyncio.sleep(RETRY)
                continue
            except MatrixError as error:
                is_over = error.status == 409
                code = WSCloseCode.POLICY_VIOLATION if is_over else WSCloseCode.TRY_AGAIN_LATER
                self.leave(error.text, code, error.errcode)
                return
            # What was answered in the meantime is not among them.
            cancelled = [work_id for work_id in cancelled if work_id in self._working]
            for work_id in cancelled:
                del self._working[work_id]
            if task is not None:
                self._working[task.work_id] = None
            elif not cancelled:
                continue
            try:
                await self._socket.send_str(push(task, cancelled, self._services.now_ms()))
            except ConnectionError:
                if task is not None:
                    with contextlib.suppress(MatrixError):
                        self._services.agents.session(self.agent_id, session).give_back(task.work_id)
                return


def _number(value: dict[str, Any]) -> int | None:
    """So that even a call that is wrong is answered by its number."""
    number = value.get("id")
    return number if type(number) is int and 0 <= number < 2**53 else None


async def _socket(request: web.Request) -> web.StreamResponse:
    services = request.app[SERVICES]
    token, holder = await services.authenticate(request)
    services.admit(holder.agent_id)
    web_socket = web.WebSocketResponse(heartbeat=PING, max_msg_size=MOST_BODY, compress=False)
    if not web_socket.can_prepare(request):
        raise MatrixError("M_UNKNOWN", "This place is for WebSockets alone.", 400)
    await web_socket.prepare(request)
    await AgentSocket(services, request.app[SOCKETS], web_socket, token, holder).run()
    return web_socket


ROUTES = (web.get(SOCKET.replace("{agent_id}", "{agent_id:[^/]+}"), _socket, allow_head=False),)
