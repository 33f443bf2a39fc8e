"""`palaver offices call`, as the node carries it out."""

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


async def asked(running: Running | None, **given: Any) -> list[Any]:
    calls = None if running is None else DirectCalls(running.server, lambda office_id, name: None)
    known = {"office": "a", "computer": "hands", "tool": "add", "params": '{"a": 1}', **given}
    stream = await streams(calls, "here.test")["offices-call"](known)
    async with contextlib.aclosing(stream) as items:
        # Whatever is answered must pass through the socket.
        return [json.loads(json.dumps(dict(item))) async for item in items]


async def test_what_came_of_a_call_is_said() -> None:
    """With the answer as it was, what is no JSON in it as text."""
    async with offices_on() as running:
        computer = await running.computer()
        computer.answers[TOOL_CALL] = {**DONE, "data": b"hi"}
        for office in ("a", "a@here.test"):
            [came] = await asked(running, office=office)
            said = await computer.until(TOOL_CALL)
            assert (said["agent"], said["params"], said["timeout"]) == ("operator@here.test", {"a": 1}, 60)
            assert (came["outcome"], came["text"]) == ("done", "3")
            assert came["answer"] == {**DONE, "data": "aGk="}
            assert came["call_id"] == said["req_id"]
            assert came["took_ms"] >= 0


async def test_who_is_not_there_is_said() -> None:
    """With who may have been meant, in other offices too."""
    async with offices_on() as running:
        await running.computer()
        [came] = await asked(running, computer="hand")
        assert (came["outcome"], came["answer"]) == ("not_found", None)
        assert "Did you mean hands?" in came["text"]
        await running.computer("pan", "kitchen")
        [came] = await asked(running, office="kitchn")
        assert "Did you mean kitchen?" in came["text"]


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"params": "["}, "no JSON"),
        ({"params": "[]"}, "no object"),
        ({"tool": None}, "needs tool"),
        ({"timeout": 0}, "not a number from 1"),
        ({"timeout": 3601}, "not a number from 1 to 3600"),
    ],
)
async def test_what_is_wrong_is_refused(given: dict[str, Any], part: str) -> None:
    """Before anything is called."""
    async with offices_on() as running:
        computer = await running.computer()
        with pytest.raises(LocalError, match=part):
            await asked(running, **given)
        assert not any(event == TOOL_CALL for event, _ in await computer.quiet())


async def test_without_offices_there_is_nothing_to_call() -> None:
    with pytest.raises(LocalError, match="serves no offices"):
        await asked(None)


async def test_whoever_goes_takes_it_back() -> None:
    """As Ctrl-C does."""
    async with offices_on() as running:
        computer = await running.computer()
        computer.answers[TOOL_CALL] = asyncio.Future()
        asking = asyncio.create_task(asked(running))
        await computer.until(TOOL_CALL)
        asking.cancel()
        await computer.until("notify:tool_call_cancel")
