"""The API over HTTP."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from bridge.agents.agent import AgentStatus
from bridge.agents.attached import messages
from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.messages import DOCUMENT, MAX_BODY, OPERATIONS
from bridge.agents.attached.services import ApiLimits
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode
from bridge.tasks.task import State
from federation.peers.limits import Rate
from storage.database import Database
from tests.bridge.agents.attached.api_running import SESSION, api, until_waiting


async def test_all_operations_of_a_task(database: Database, tmp_path: Path) -> None:
    """Register, take, begin, report, answer, unregister; each response has the described form."""
    async with api(database, tmp_path) as one:
        registered = await one.register(runtime="opencode", capabilities=["coding"])
        messages.RegisterResponse.model_validate(registered)
        assert registered["address"] == "worker@here"
        await one.node.ask("a", prompt="Cook", model="m", metadata={"x": [1, None]})
        task = (await one.take())["task"]
        messages.Task.model_validate(task)
        assert (task["prompt"], task["model"], task["metadata"]) == ("Cook", "m", {"x": [1, None]})
        assert (task["task_id"], task["from_agent"]) == ("task-a", "coordinator@living")
        assert task["seconds_left"] == 300.0
        assert (await one.say(task, "begin")).body == {"wanted": True}
        assert (await one.say(task, "progress", text="half")).body == {"wanted": True}
        assert (await one.node.requester.heard.get())[1] == {"message": "half"}
        busy = await one.node.status_is(AgentStatus.BUSY)
        assert busy.current_task == "task-a"
        view = (await one.ask("GET", "")).body
        messages.AgentView.model_validate(view)
        assert (view["runtime"], view["status"], view["is_attached"]) == ("open_code", "busy", True)
        answer: dict[str, Any] = {"success": True, "output": "done", "exit_code": 0, "metadata": {"tokens": 7}}
        assert (await one.say(task, "result", **answer)).body == {"wanted": True}
        assert (await one.node.answered()).answer == Answer(True, "done", 0, {"tokens": 7})
        left = await one.ask("DELETE", f"?session={SESSION}&reason=the%20end")
        assert (left.status, left.body) == (200, {})
        gone = await one.node.status_is(AgentStatus.SHUTDOWN)
        assert gone.gone_reason == "the end"


async def test_a_failure_has_a_code(database: Database, tmp_path: Path) -> None:
    """One of those that an agent may use."""
    async with api(database, tmp_path) as one:
        await one.register()
        await one.node.ask("a")
        task = (await one.take())["task"]
        assert (await one.say(task, "failure", code="INVALID_PAYLOAD", reason="Not this.")).body["wanted"]
        answer = (await one.node.answered()).answer
        assert answer is not None
        assert (answer.error_code, answer.output) == (ErrorCode.INVALID_PAYLOAD, "Not this.")


async def test_a_heartbeat_returns_cancelled_tasks(database: Database, tmp_path: Path) -> None:
    """Of those that the program works on."""
    async with api(database, tmp_path) as one:
        await one.register()
        assert (await one.ask("POST", "/heartbeat", {"session": SESSION})).body == {"cancelled": []}
        await one.node.ask("a")
        task = (await one.take())["task"]
        await one.say(task, "begin")
        waiting = asyncio.create_task(one.take(working=[task["work_id"]]))
        await one.node.tasks.cancel((await one.node.task("a")).key, "somebody")
        assert await waiting == {"task": None, "cancelled": [task["work_id"]]}
        said = {"session": SESSION, "working": [task["work_id"]]}
        assert (await one.ask("POST", "/heartbeat", said)).body == {"cancelled": [task["work_id"]]}
        assert (await one.say(task, "result", output="late")).body == {"wanted": False}


async def test_a_status_is_reported(database: Database, tmp_path: Path) -> None:
    """The agent has failed, and has recovered."""
    async with api(database, tmp_path) as one:
        await one.register()
        for status in (AgentStatus.ERROR, AgentStatus.IDLE):
            assert (await one.ask("PUT", "/status", {"session": SESSION, "status": status})).status == 200
            await one.node.status_is(status)


async def test_taking_without_a_task(database: Database, tmp_path: Path) -> None:
    """Null is a valid response."""
    async with api(database, tmp_path) as one:
        await one.register()
        assert await one.take(wait=0) == {"task": None, "cancelled": []}


async def test_an_offer_to_a_closed_connection_is_repeated(database: Database, tmp_path: Path) -> None:
    """At once, without waiting for the time within which it should have begun."""
    async with api(database, tmp_path) as one:
        await one.register()
        _, writer = await asyncio.open_connection("127.0.0.1", one.port)
        body = json.dumps({"session": SESSION, "wait_seconds": 60}).encode()
        head = (
            f"POST /_palaver/v1/agents/worker/tasks/take HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {await one.token()}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        await until_waiting(one)
        writer.close()
        await writer.wait_closed()
        await one.seen.until(lambda seen: seen.closed)
        await one.node.ask("a")
        task = (await one.take())["task"]
        assert task["attempt"] == 2


@pytest.mark.parametrize("agent_id", ["a/b", "..", "ü ber", "a%2Fb", "a+b?c#d", "{x}", "x" * 200])
async def test_agents_of_any_name(database: Database, tmp_path: Path, agent_id: str) -> None:
    """The escaped path is decoded."""
    async with api(database, tmp_path) as one:
        registered = await one.register(agent_id=agent_id)
        assert registered["address"] == f"{agent_id}@here"


# -- refusals --


async def test_without_a_valid_token_everything_is_refused(database: Database, tmp_path: Path) -> None:
    """No token, a malformed one, a revoked one, another agent's: with errors that reveal nothing."""
    async with api(database, tmp_path) as one:
        await one.register()
        good = await one.token()
        other = await one.token("other")
        revoked = (await one.tokens.create("worker", "", None))[0]
        await one.tokens.revoke("worker", revoked.token_id)
        await one.register()
        for shown, status, errcode in (
            ({}, 401, "M_UNKNOWN_TOKEN"),
            ({"Authorization": "Bearer nonsense"}, 401, "M_UNKNOWN_TOKEN"),
            ({"Authorization": f"Bearer {good[:-1]}x"}, 401, "M_UNKNOWN_TOKEN"),
            ({"Authorization": f"Bearer {revoked.text}"}, 401, "M_UNKNOWN_TOKEN"),
            ({"Authorization": f"Basic {good}"}, 401, "M_UNKNOWN_TOKEN"),
            ({"Authorization": f"Bearer {other}"}, 403, "M_FORBIDDEN"),
        ):
            for operation in OPERATIONS:
                path = operation.path.format(agent_id="worker", work_id="1").partition("worker")[2]
                answer = await one.ask(operation.method, path, {}, headers=shown)
                messages.Problem.model_validate(answer.body)
                assert (answer.status, answer.body["errcode"]) == (status, errcode), operation


async def test_failed_authentication_is_limited(database: Database, tmp_path: Path) -> None:
    """By address; valid tokens are accepted up to the limit."""
    limits = ApiLimits(failures=Rate(0.001, 2), shared_addresses=())
    async with api(database, tmp_path) as one:
        one.services.limits = limits
        for _ in range(3):
            await one.register()
        statuses = [(await one.ask("GET", "", headers={})).status for _ in range(3)]
        assert statuses == [401, 401, 429]


async def test_the_call_rate_is_limited(database: Database, tmp_path: Path) -> None:
    """The response says when to retry, also in a header."""
    async with api(database, tmp_path) as one:
        one.services.limits = ApiLimits(of_agent=Rate(0.001, 1))
        await one.register()
        answer = await one.ask("GET", "")
        assert (answer.status, answer.body["errcode"]) == (429, "M_LIMIT_EXCEEDED")
        assert answer.body["retry_after_ms"] > 1000


async def test_only_the_newest_session_is_accepted(database: Database, tmp_path: Path) -> None:
    """Others learn whether to register or to stop."""
    async with api(database, tmp_path) as one:
        answer = await one.ask("POST", "/heartbeat", {"session": SESSION})
        assert (answer.status, answer.body["errcode"]) == (409, "PALAVER_NOT_ATTACHED")
        assert (await one.ask("GET", "")).status == 404
        await one.register("session-2")
        waiting = asyncio.create_task(one.ask("POST", "/tasks/take", {"session": "session-2"}))
        while not (await one.ask("GET", "")).body["is_attached"]:
            await asyncio.sleep(0)
        await one.register()
        answer = await waiting
        assert (answer.status, answer.body["errcode"]) == (409, "PALAVER_SESSION_REPLACED")


HOSTILE: list[tuple[str, str, Any, str]] = [
    ("PUT", "", b"", "M_NOT_JSON"),
    ("PUT", "", b"{", "M_NOT_JSON"),
    ("PUT", "", b"\xff\xfe", "M_NOT_JSON"),
    ("PUT", "", b'{"session":"\\ud800aaaaaaaa"}', "M_NOT_JSON"),
    ("PUT", "", b"[" * 100_000, "M_NOT_JSON"),
    ("PUT", "", b'{"a":' * 100_000, "M_NOT_JSON"),
    ("PUT", "", [], "M_BAD_JSON"),
    ("PUT", "", "text", "M_BAD_JSON"),
    ("PUT", "", {}, "M_BAD_JSON"),
    ("PUT", "", {"session": 7}, "M_BAD_JSON"),
    ("PUT", "", {"session": "short"}, "M_BAD_JSON"),
    ("PUT", "", {"session": "x" * 65}, "M_BAD_JSON"),
    ("PUT", "", {"session": "a b c d e f"}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "what": 1}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "runtime": "A B"}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "runtime": "x\n"}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "capabilities": ["a\0b"]}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "capabilities": ["x"] * 65}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "parallel": 0}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "parallel": 1e400}, "M_NOT_JSON"),
    ("PUT", "", {"session": SESSION, "parallel": True}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "queue": 10**30}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "working": [{"work_id": "1", "attempt": 0}]}, "M_BAD_JSON"),
    ("PUT", "", {"session": SESSION, "working": [{"work_id": "9" * 32, "attempt": 1}] * 65}, "M_BAD_JSON"),
    ("POST", "/heartbeat", {"session": SESSION, "working": ["x"]}, "M_BAD_JSON"),
    ("PUT", "/status", {"session": SESSION, "status": "busy"}, "M_BAD_JSON"),
    ("POST", "/tasks/take", {"session": SESSION, "wait_seconds": 61}, "M_BAD_JSON"),
    ("POST", "/tasks/take", {"session": SESSION, "wait_seconds": -1}, "M_BAD_JSON"),
    ("POST", "/tasks/take", {"session": SESSION, "wait_seconds": "1"}, "M_BAD_JSON"),
    ("POST", "/tasks/1/begin", {"session": SESSION}, "M_BAD_JSON"),
    ("POST", "/tasks/1/begin", {"session": SESSION, "attempt": 2**31}, "M_BAD_JSON"),
    ("POST", "/tasks/x/begin", {"session": SESSION, "attempt": 1}, "M_UNRECOGNIZED"),
    ("POST", f"/tasks/{'9' * 33}/begin", {"session": SESSION, "attempt": 1}, "M_UNRECOGNIZED"),
    ("POST", "/tasks/1/progress", {"session": SESSION, "attempt": 1, "text": ""}, "M_BAD_JSON"),
    ("POST", "/tasks/1/progress", {"session": SESSION, "attempt": 1, "text": "x" * 4001}, "M_BAD_JSON"),
    ("POST", "/tasks/1/result", {"session": SESSION, "attempt": 1, "exit_code": 2**31}, "M_BAD_JSON"),
    ("POST", "/tasks/1/result", {"session": SESSION, "attempt": 1, "metadata": []}, "M_BAD_JSON"),
    ("POST", "/tasks/1/result", {"session": SESSION, "attempt": 1, "success": "yes"}, "M_BAD_JSON"),
    ("POST", "/tasks/1/failure", {"session": SESSION, "attempt": 1, "code": "X", "reason": "r"}, "M_BAD_JSON"),
    ("POST", "/tasks/1/result", b"x" * (MAX_BODY + 1), "M_TOO_LARGE"),
    ("DELETE", "?session=x", None, "M_BAD_JSON"),
    ("DELETE", f"?session={SESSION}&what=1", None, "M_BAD_JSON"),
    ("DELETE", f"?session={SESSION}&reason=a%0Ab", None, "M_BAD_JSON"),
    ("PATCH", "", {}, "M_UNRECOGNIZED"),
    ("POST", "/nothing", {}, "M_UNRECOGNIZED"),
]


async def test_invalid_messages_get_an_error(database: Database, tmp_path: Path) -> None:
    """Sizes, depths, numbers, types, names: never a 500, always the same form, with the field if there is
    one; nothing is changed."""
    async with api(database, tmp_path) as one:
        await one.register()
        for method, path, body, errcode in HOSTILE:
            raw = body if isinstance(body, bytes) else None
            answer = await one.ask(method, path, body, data=raw)
            assert 400 <= answer.status < 500, (method, path, str(body)[:80], answer)
            messages.Problem.model_validate(answer.body)
            assert answer.body["errcode"] == errcode, (method, path, str(body)[:80], answer)
            if errcode == "M_BAD_JSON" and isinstance(body, dict) and body:
                assert answer.body["field"], answer
        assert (await one.ask("GET", "")).body["status"] == "idle"


async def test_unusual_answers_are_stored(database: Database, tmp_path: Path) -> None:
    """NUL, huge numbers, deep metadata, a long output: as far as they can be stored."""
    async with api(database, tmp_path) as one:
        await one.register()
        deep: Any = 1
        for _ in range(200):
            deep = [deep]
        for name, said in (
            ("a", {"output": "a\0b", "metadata": {"n": 2**80, "nul": "\0"}}),
            ("b", {"output": "x" * (4 << 20)}),
            ("c", {"metadata": {"deep": deep}}),
            ("d", {"metadata": {"long": "x" * 100_000}}),
        ):
            await one.node.ask(name)
            task = (await one.take())["task"]
            assert (await one.say(task, "result", **said)).body == {"wanted": True}
            assert (await one.node.answered()).state is State.DONE


async def test_the_openapi_document_is_served(database: Database, tmp_path: Path) -> None:
    """Without authentication."""
    async with api(database, tmp_path) as one, one.http.get(f"http://127.0.0.1:{one.port}{DOCUMENT}") as response:
        assert response.status == 200
        described = await response.json()
        assert described["openapi"] == "3.1.0"


# -- the end --


async def test_a_waiting_request_ends_when_the_node_stops(database: Database, tmp_path: Path) -> None:
    """Begun tasks may still be answered."""
    async with api(database, tmp_path) as one:
        await one.register()
        await one.node.ask("a")
        task = (await one.take())["task"]
        await one.say(task, "begin")
        waiting = asyncio.create_task(one.ask("POST", "/tasks/take", {"session": SESSION}))
        await until_waiting(one)
        one.node.attached.stop()
        answer = await waiting
        assert (answer.status, answer.body["errcode"]) == (503, "M_LIMIT_EXCEEDED")
        assert (await one.say(task, "result", output="done")).body == {"wanted": True}
        assert (await one.node.answered()).state is State.DONE


@pytest.mark.parametrize("most", [1])
async def test_the_limit_of_agents_is_reported(database: Database, tmp_path: Path, most: int) -> None:
    """One agent too many."""
    async with api(database, tmp_path) as one:
        one.node.attached.limits = AttachedLimits(max_agents=most)
        await one.register()
        answer = await one.ask("PUT", "", {"session": SESSION}, agent_id="other")
        assert (answer.status, answer.body["errcode"]) == (429, "M_LIMIT_EXCEEDED")
