"""The WebSocket of the API for attached agents: calls as over HTTP, and tasks pushed by the node.

Tasks of an agent are pushed on one socket: the one on which its newest session registered last.
"""

import asyncio
import contextlib
from typing import Any, Final

import structlog
from aiohttp import WSCloseCode, WSMsgType, web

from bridge.agents.attached.codec import call_answer_json, parse_json_object, parse_message, push_json
from bridge.agents.attached.handlers import call_operation
from bridge.agents.attached.messages import (
    MAX_BODY,
    MAX_WAIT,
    OPERATIONS_BY_NAME,
    SOCKET,
    Call,
    CallAnswer,
    Message,
    Operation,
    Problem,
    Push,
    RegisterResponse,
    TaskCallResponse,
)
from bridge.agents.attached.services import SERVICES, AgentServices
from bridge.agents.attached.tokens import Token, TokenOwner
from federation.matrix.errors import MatrixError
from storage.concurrency import CLOSE_TIMEOUT, BackgroundTasks
from storage.connect import ConnectionLost

PING_INTERVAL: Final = 20.0
"""Seconds. A connection without a pong is closed."""
RETRY_DELAY: Final = 1.0
LOOP_ITERATIONS: Final = 2
"""Iterations of the event loop before a call is answered. They let the effects of the call, which is
committed, be sent to other nodes first."""
WEBSOCKET_OPERATIONS: Final = frozenset(OPERATIONS_BY_NAME) - {"take"}

log = structlog.get_logger("palaver")


class Sockets:
    """The open sockets, which are closed when the node stops or their token is revoked."""

    def __init__(self) -> None:
        self._open: set[AgentSocket] = set()
        self._task_sockets: dict[str, AgentSocket] = {}

    def add(self, socket: "AgentSocket") -> None:
        self._open.add(socket)

    def remove(self, socket: "AgentSocket") -> None:
        self._open.discard(socket)
        if self._task_sockets.get(socket.agent_id) is socket:
            del self._task_sockets[socket.agent_id]

    def use_for_tasks(self, socket: "AgentSocket") -> None:
        """Push the agent's tasks on this socket from now on."""
        before = self._task_sockets.get(socket.agent_id)
        if before is not None and before is not socket:
            before.start_closing("The agent has registered on another connection.", WSCloseCode.POLICY_VIOLATION)
        self._task_sockets[socket.agent_id] = socket

    def close_revoked(self, token_id: str) -> None:
        for socket in list(self._open):
            if socket.token_id == token_id:
                socket.start_closing("The token was revoked.", WSCloseCode.POLICY_VIOLATION)

    def close(self) -> None:
        for socket in list(self._open):
            socket.start_closing("The node is stopping.", WSCloseCode.GOING_AWAY)


SOCKETS: Final = web.AppKey("AGENT_SOCKETS", Sockets)


class AgentSocket:
    def __init__(
        self,
        services: AgentServices,
        sockets: Sockets,
        web_socket: web.WebSocketResponse,
        token: Token,
        owner: TokenOwner,
    ) -> None:
        self._services = services
        self._sockets = sockets
        self._socket = web_socket
        self._token = token
        self._owner = owner
        self._session: str | None = None
        self._working: dict[str, None] = {}
        self._background = BackgroundTasks()
        self._push_loop: asyncio.Task[None] | None = None
        self._is_closing = False

    @property
    def agent_id(self) -> str:
        return self._owner.agent_id

    @property
    def token_id(self) -> str:
        return self._owner.token_id

    async def run(self) -> None:
        """Handle messages until one side closes the socket."""
        self._sockets.add(self)
        timeout = self._services.agents.limits.timeout
        try:
            while True:
                # Pings show that the connection works, not that the agent does.
                message = await self._socket.receive(timeout=timeout)
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
            if self._push_loop is not None:
                self._push_loop.cancel()
            # Let the message that explains the closing be sent.
            await self._background.drain(CLOSE_TIMEOUT)
            await self._background.close()

    def start_closing(self, why: str, code: int, errcode: str | None = None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._background.spawn("close an agent's socket", self._close(why, code, errcode))

    async def _close(self, why: str, code: int, errcode: str | None) -> None:
        if self._push_loop is not None:
            self._push_loop.cancel()
        with contextlib.suppress(ConnectionError):
            closing = Push(closing=why, errcode=errcode)
            await self._socket.send_str(closing.model_dump_json(exclude_defaults=True))
            await self._socket.close(code=code)

    # -- calls --

    async def _answer(self, text: str) -> str:
        call_id: int | None = None
        try:
            value = parse_json_object(text)
            call_id = _call_id(value)
            call = parse_message(Call, value)
            operation = OPERATIONS_BY_NAME[call.do] if call.do in WEBSOCKET_OPERATIONS else None
            if operation is None:
                raise MatrixError(
                    "M_UNRECOGNIZED", f"Unknown operation. Known ones: {', '.join(sorted(WEBSOCKET_OPERATIONS))}.", 404
                )
            if operation.of_task and call.work_id is None:
                raise MatrixError("M_BAD_JSON", "work_id: is missing.", 400, fields={"field": "work_id"})
            answer = await self._do(operation, call)
            for _ in range(LOOP_ITERATIONS):
                await asyncio.sleep(0)
        except MatrixError as error:
            problem = CallAnswer(id=call_id, problem=Problem(**error.body()), status=error.status)
            return problem.model_dump_json()
        return call_answer_json(call.id, answer)

    async def _do(self, operation: Operation, call: Call) -> Message:
        if operation.name == "register" and await self._services.tokens.owner_of(self._token) is None:
            raise MatrixError("M_UNKNOWN_TOKEN", "The token has expired or was revoked.", 401)
        if operation.name == "unregister" and self._push_loop is not None:
            # Otherwise the end of the session would look like a replacement, and close the socket before the
            # answer.
            self._push_loop.cancel()
            self._session = None
        answer = await call_operation(self._services, self._owner, operation, call.body, call.work_id or "")
        if isinstance(answer, RegisterResponse):
            self._working = dict.fromkeys(one.work_id for one in answer.working)
            self._start_pushing(call.body["session"])
        elif isinstance(answer, TaskCallResponse) and (not answer.wanted or operation.name in {"finish", "fail"}):
            self._working.pop(call.work_id or "", None)
        return answer

    # -- tasks --

    def _start_pushing(self, session: str) -> None:
        self._sockets.use_for_tasks(self)
        if self._session != session:
            if self._push_loop is not None:
                self._push_loop.cancel()
            self._session = session
            self._push_loop = self._background.spawn("push tasks to an agent", self._push_tasks(session))

    async def _push_tasks(self, session: str) -> None:
        while True:
            try:
                if not await self._push_next(session):
                    return
            except ConnectionLost:
                await asyncio.sleep(RETRY_DELAY)
            except Exception:
                # Without a retry the agent would stay attached without getting tasks.
                log.exception("A task could not be pushed to an agent.", agent=self.agent_id)
                await asyncio.sleep(RETRY_DELAY)

    async def _push_next(self, session: str) -> bool:
        """Push the next task or cancellation. False if the session has ended."""
        try:
            task, cancelled = await self._services.work.take(self.agent_id, session, MAX_WAIT, list(self._working))
        except MatrixError as error:
            is_over = error.status == 409
            code = WSCloseCode.POLICY_VIOLATION if is_over else WSCloseCode.TRY_AGAIN_LATER
            self.start_closing(error.text, code, error.errcode)
            return False
        # Skip tasks that the program has answered meanwhile.
        cancelled = [work_id for work_id in cancelled if work_id in self._working]
        if task is None and not cancelled:
            return True
        for work_id in cancelled:
            del self._working[work_id]
        if task is not None:
            self._working[task.work_id] = None
        try:
            await self._socket.send_str(push_json(task, cancelled, self._services.now_ms()))
        except Exception as error:
            self._working.update(dict.fromkeys(cancelled))
            if task is not None:
                self._working.pop(task.work_id, None)
                with contextlib.suppress(MatrixError):
                    self._services.agents.session(self.agent_id, session).withdraw_offer(task.work_id)
            if isinstance(error, ConnectionError):
                return False
            raise
        return True


def _call_id(value: dict[str, Any]) -> int | None:
    """The id of a call, so that an invalid call is answered with its id."""
    call_id = value.get("id")
    return call_id if type(call_id) is int and 0 <= call_id < 2**53 else None


async def _socket(request: web.Request) -> web.StreamResponse:
    services = request.app[SERVICES]
    token, owner = await services.authenticate(request)
    services.admit(owner.agent_id)
    web_socket = web.WebSocketResponse(heartbeat=PING_INTERVAL, max_msg_size=MAX_BODY, compress=False)
    if not web_socket.can_prepare(request):
        raise MatrixError("M_UNKNOWN", "This endpoint accepts WebSocket connections only.", 400)
    await web_socket.prepare(request)
    await AgentSocket(services, request.app[SOCKETS], web_socket, token, owner).run()
    return web_socket


ROUTES = (web.get(SOCKET.replace("{agent_id}", "{agent_id:[^/]+}"), _socket, allow_head=False),)
