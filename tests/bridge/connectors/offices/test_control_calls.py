"""`palaver offices call` on the control socket."""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from bridge.connectors.offices.calls.direct_call import DirectCalls
from bridge.connectors.offices.control import streams
from bridge.connectors.offices.protocol.events import TOOL_CALL
from storage.errors import LocalError
from tests.bridge.connectors.offices.clients import Running, offices_on

DONE = {"content": [{"type": "text", "text": "3"}], "isError": False}


async def run(running: Running | None, **given: Any) -> list[Any]:
    calls = None if running is None else DirectCalls(running.server, lambda office_id, name: None)
    known = {"office": "a", "computer": "hands", "tool": "add", "params": '{"a": 1}', **given}
    stream = await streams(calls, "here.test")["offices-call"](known)
    async with contextlib.aclosing(stream) as items:
        # Every item must be JSON, to pass through the socket.
        return [json.loads(json.dumps(dict(item))) async for item in items]


async def test_the_outcome_of_a_call() -> None:
    """With the Computer's answer, in which bytes are base64."""
    async with offices_on() as running:
        computer = await running.computer()
        computer.answers[TOOL_CALL] = {**DONE, "data": b"hi"}
        for office in ("a", "a@here.test"):
            [result] = await run(running, office=office)
            payload = await computer.wait_for(TOOL_CALL)
            fields = (payload["agent"], payload["params"], payload["timeout"])
            assert fields == ("operator@here.test", {"a": 1}, 60)
            assert (result["outcome"], result["text"]) == ("done", "3")
            assert result["answer"] == {**DONE, "data": "aGk="}
            assert result["call_id"] == payload["req_id"]
            assert result["took_ms"] >= 0


async def test_an_unknown_computer_or_office() -> None:
    """With a suggestion, also for the names of other offices."""
    async with offices_on() as running:
        await running.computer()
        [result] = await run(running, computer="hand")
        assert (result["outcome"], result["answer"]) == ("not_found", None)
        assert "Did you mean hands?" in result["text"]
        await running.computer("pan", "kitchen")
        [result] = await run(running, office="kitchn")
        assert "Did you mean kitchen?" in result["text"]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"params": "["}, "not valid JSON"),
        ({"params": "[]"}, "must be a JSON object"),
        ({"tool": None}, "needs tool"),
        ({"timeout": 0}, "not a number from 1"),
        ({"timeout": 3601}, "not a number from 1 to 3600"),
    ],
)
async def test_invalid_arguments_are_refused(given: dict[str, Any], part: str) -> None:
    """Before any tool is called."""
    async with offices_on() as running:
        computer = await running.computer()
        with pytest.raises(LocalError, match=part):
            await run(running, **given)
        assert not any(event == TOOL_CALL for event, _ in await computer.unexpected())


async def test_a_node_without_offices_cannot_call() -> None:
    with pytest.raises(LocalError, match="does not serve offices"):
        await run(None)


async def test_closing_the_stream_cancels_the_call() -> None:
    """As Ctrl-C does."""
    async with offices_on() as running:
        computer = await running.computer()
        computer.answers[TOOL_CALL] = asyncio.Future()
        asking = asyncio.create_task(run(running))
        await computer.wait_for(TOOL_CALL)
        asking.cancel()
        await computer.wait_for("notify:tool_call_cancel")
