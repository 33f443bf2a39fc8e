"""The API through a WebSocket."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from bridge.agents.agent import AgentStatus
from bridge.agents.attached import messages
from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.messages import MAX_BODY
from bridge.tasks.answer import Answer
from bridge.tasks.task import State
from storage.database import Database
from tests.bridge.agents.attached.api_running import TIMEOUT, api


async def test_all_operations_of_a_task(database: Database, tmp_path: Path) -> None:
    """Tasks are pushed; responses have the id of their call and the described form."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        registered = await socket.call("register", runtime="kimi")
        messages.CallAnswer.model_validate(registered)
        assert registered["answer"]["address"] == "worker@here"
        await one.node.ask("a", prompt="Cook")
        pushed = await socket.push()
        messages.Push.model_validate(pushed)
        task = pushed["task"]
        assert task["prompt"] == "Cook"
        for do, said in (("begin", {}), ("progress", {"text": "half"}), ("finish", {"output": "done"})):
            answered = await socket.call(do, task["work_id"], attempt=task["attempt"], **said)
            assert answered["answer"] == {"wanted": True}
        assert (await one.node.answered()).answer == Answer(True, "done", 0)
        assert (await socket.call("heartbeat"))["answer"] == {"cancelled": []}
        shown = await socket.call("show")
        assert shown["answer"]["address"] == "worker@here"
        assert (await socket.call("unregister"))["answer"] == {}
        await one.node.status_is(AgentStatus.SHUTDOWN)


async def test_tasks_are_pushed_after_an_error(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is logged."""
    monkeypatch.setattr("bridge.agents.attached.websocket.RETRY_DELAY", 0.01)
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.call("register")
        now_ms, failures = one.services.now_ms, 2

        def fail() -> int:
            nonlocal failures
            if failures:
                failures -= 1
                raise ZeroDivisionError
            return now_ms()

        one.services.now_ms = fail
        with capture_logs() as logs:
            await one.node.ask("a")
            pushed = await socket.push()
        assert (pushed["task"]["task_id"], pushed["task"]["attempt"]) == ("task-a", 3)
        failed = [log for log in logs if log["log_level"] == "error"]
        assert [log["agent"] for log in failed] == ["worker", "worker"]
        assert (await socket.call("finish", pushed["task"]["work_id"], attempt=3))["answer"]["wanted"]


async def test_several_tasks_are_pushed(database: Database, tmp_path: Path) -> None:
    """As many as the program works on, and the next one when one is done."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.call("register", parallel=2)
        for name in "abc":
            await one.node.ask(name)
        tasks = [(await socket.push())["task"] for _ in range(2)]
        assert {task["task_id"] for task in tasks} == {"task-a", "task-b"}
        await socket.call("finish", tasks[0]["work_id"], attempt=1, output="done")
        assert (await socket.push())["task"]["task_id"] == "task-c"
        assert socket.pushed.empty()


async def test_a_cancellation_is_pushed(database: Database, tmp_path: Path) -> None:
    """Of begun tasks and of others."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.call("register", parallel=2)
        for name in "ab":
            await one.node.ask(name)
        tasks = {task["task_id"]: task for task in [(await socket.push())["task"] for _ in "ab"]}
        await socket.call("begin", tasks["task-a"]["work_id"], attempt=1)
        for name in "ab":
            await one.node.tasks.cancel((await one.node.task(name)).key, "somebody")
            assert await socket.push() == {"cancelled": [tasks[f"task-{name}"]["work_id"]]}
        answered = await socket.call("begin", tasks["task-b"]["work_id"], attempt=1)
        assert answered["answer"] == {"wanted": False}


async def test_a_session_continues_on_another_connection(database: Database, tmp_path: Path) -> None:
    """Its tasks continue, and the old connection is closed."""
    async with api(database, tmp_path) as one, one.socket() as old:
        await old.call("register", parallel=2)
        await one.node.ask("a")
        task = (await old.push())["task"]
        await old.call("begin", task["work_id"], attempt=1)
        async with one.socket() as new:
            working = [{"work_id": task["work_id"], "attempt": 1}]
            registered = await new.call("register", parallel=2, working=working)
            assert registered["answer"]["working"] == working
            assert await old.push() == {"closing": "The agent has registered on another connection."}
            assert await old.is_closed() == aiohttp.WSCloseCode.POLICY_VIOLATION
            await one.node.ask("b")
            assert (await new.push())["task"]["task_id"] == "task-b"
            assert (await new.call("finish", task["work_id"], attempt=1))["answer"]["wanted"]
        assert (await one.node.answered()).state is State.DONE


async def test_the_socket_of_a_replaced_program_is_closed(database: Database, tmp_path: Path) -> None:
    """The other session may use HTTP."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.call("register")
        await one.register("session-2")
        pushed = await socket.push()
        assert "is attached as this agent" in pushed["closing"]
        assert pushed["errcode"] == "PALAVER_SESSION_REPLACED"
        assert await socket.is_closed() == aiohttp.WSCloseCode.POLICY_VIOLATION


async def test_a_task_for_a_closed_connection_is_pushed_again(database: Database, tmp_path: Path) -> None:
    """On the next one: it was not begun."""
    async with api(database, tmp_path) as one:
        one.node.attached.limits = AttachedLimits(begin_timeout=0.1)
        async with one.socket() as socket:
            await socket.call("register")
            # As if a cable were unplugged.
            socket.socket._response.connection.transport.abort()  # type: ignore[union-attr]
            await one.node.ask("a")
        async with one.socket() as socket:
            await socket.call("register")
            assert (await socket.push())["task"]["task_id"] == "task-a"


async def test_a_revoked_token_closes_its_sockets(database: Database, tmp_path: Path) -> None:
    """Registered or not, and calls on another connection are refused."""
    async with api(database, tmp_path) as one, one.socket() as socket, one.socket() as idle:
        await socket.call("register")
        # Its handshake is complete, and it is among the open sockets.
        await idle.call("heartbeat")
        [row] = await one.tokens.list_tokens("worker")
        await one.tokens.revoke("worker", row.token_id)
        for each in (socket, idle):
            assert await each.is_closed() == aiohttp.WSCloseCode.POLICY_VIOLATION
        await one.node.status_is(AgentStatus.SHUTDOWN)


async def test_a_token_that_another_process_revoked_is_refused(database: Database, tmp_path: Path) -> None:
    """This process checks the token at registration."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        async with database.transaction() as connection:
            await connection.execute("UPDATE agent_tokens SET revoked_at = 1")
        answered = await socket.call("register")
        assert (answered["status"], answered["problem"]["errcode"]) == (401, "M_UNKNOWN_TOKEN")


async def test_a_stopping_node_closes_its_sockets(database: Database, tmp_path: Path) -> None:
    """After a message with the reason."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.call("register")
        closing = asyncio.create_task(one.listener.close(TIMEOUT))
        assert await socket.push() == {"closing": "The node is stopping."}
        assert await socket.is_closed() == aiohttp.WSCloseCode.GOING_AWAY
        await closing


async def test_a_silent_socket_is_closed(database: Database, tmp_path: Path) -> None:
    """Pings keep a connection open, but a program must send messages."""
    async with api(database, tmp_path) as one:
        one.node.attached.limits = AttachedLimits(timeout=0.1)
        async with one.socket() as socket:
            assert await socket.is_closed() is not None


async def test_the_socket_requires_a_token(database: Database, tmp_path: Path) -> None:
    """The same tokens as over HTTP. A request that is not a WebSocket gets an error."""
    async with api(database, tmp_path) as one:
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {await one.token('other')}"}, 403)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await one.http.ws_connect(one.url("/socket"), headers=headers)
            assert refused.value.status == status
        answer = await one.ask("GET", "/socket")
        assert (answer.status, answer.body["errcode"]) == (400, "M_UNKNOWN")


@pytest.mark.parametrize(
    ("text", "number", "errcode"),
    [
        ("", None, "M_NOT_JSON"),
        ("[" * 100_000, None, "M_NOT_JSON"),
        ("[]", None, "M_BAD_JSON"),
        ('{"id": "1"}', None, "M_BAD_JSON"),
        ('{"id": -1, "do": "show"}', None, "M_BAD_JSON"),
        ('{"id": 1e400, "do": "show"}', None, "M_NOT_JSON"),
        ('{"id": 1}', 1, "M_BAD_JSON"),
        ('{"id": 1, "do": "nothing"}', 1, "M_UNRECOGNIZED"),
        ('{"id": 1, "do": "take", "body": {"session": "session-1"}}', 1, "M_UNRECOGNIZED"),
        ('{"id": 1, "do": "show", "more": 1}', 1, "M_BAD_JSON"),
        ('{"id": 1, "do": "begin", "body": {"session": "session-1", "attempt": 1}}', 1, "M_BAD_JSON"),
        ('{"id": 1, "do": "begin", "work_id": "x"}', 1, "M_BAD_JSON"),
        ('{"id": 1, "do": "register", "body": []}', 1, "M_BAD_JSON"),
        ('{"id": 1, "do": "heartbeat", "body": {"session": "session-1"}}', 1, "PALAVER_NOT_ATTACHED"),
    ],
)
async def test_invalid_calls_get_an_error(
    database: Database, tmp_path: Path, text: str, number: int | None, errcode: str
) -> None:
    """With the call's id, if it had one; the connection stays open."""
    async with api(database, tmp_path) as one, one.socket() as socket:
        await socket.socket.send_str(text)
        answered: Any = await socket.receive()
        messages.CallAnswer.model_validate(answered)
        assert (answered["id"], answered["problem"]["errcode"]) == (number, errcode)
        assert (await socket.call("register"))["status"] == 200


async def test_invalid_frames_close_the_connection(database: Database, tmp_path: Path) -> None:
    """Bytes, and a message that is too large."""
    async with api(database, tmp_path) as one:
        async with one.socket() as socket:
            await socket.socket.send_bytes(b"{}")
            assert await socket.is_closed() == aiohttp.WSCloseCode.UNSUPPORTED_DATA
        async with one.socket() as socket:
            # The node may close the connection before everything was sent.
            with contextlib.suppress(ConnectionError):
                await socket.socket.send_str(json.dumps({"id": 1, "do": "x" * MAX_BODY}))
            assert await socket.is_closed() in {aiohttp.WSCloseCode.MESSAGE_TOO_BIG, None}
