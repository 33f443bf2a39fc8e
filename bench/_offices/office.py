"""An Agent and a Computer in an office that only call and answer."""

import secrets
from time import perf_counter
from typing import Any, Final

import orjson

from bench._offices.connection import Connection, connect
from bench._offices.sides import Place

JOIN: Final = "server:join_office"
CALL: Final = "client:tool_call"
TOOL: Final = "scale__read"
SECONDS: Final = 60
"""That a tool may take."""
PARAMETERS: Final = {
    "scale": "kitchen/left",
    "unit": "gram",
    "samples": 12,
    "tolerance": 5,
    "wait": True,
    "note": "What does the scale say? Next reading at noon. The container weighs 412 without its lid.",
}
"""Some 200 bytes, with the mark of the call."""
RESULT: Final = "The scale says 1,284 g, of which the container is 412 g. " * 5
"""Some 300 bytes, with the mark of the call."""


class Office:
    """Created by `settle`. Each call has a mark, which is in its parameters and in its answer."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._run = secrets.token_hex(4)
        self._calls = 0
        self._agent: Connection
        self._computer: Connection

    async def settle(self) -> None:
        """Both join."""
        name = self._place.office_id.partition("@")[0]
        self._computer_name, self._agent_name = f"scale-of-{name}", f"planner-of-{name}"
        self._computer = await self._come(self._place.computer, "computer", self._computer_name, self._answer)
        self._agent = await self._come(self._place.agent, "agent", self._agent_name, _hear_nothing)

    async def _come(self, listener: Any, role: str, name: str, heard: Any) -> Connection:
        connection = await connect(listener.port, listener.token, heard)
        joined = await connection.ask(JOIN, {"role": role, "name": name, "office_id": self._place.office_id})
        assert joined[0] is True, f"{name} is not let into the office: {joined}"
        return connection

    async def call(self) -> float:
        """Measure from sending a call until its answer was read."""
        self._calls += 1
        mark = f"{self._run}-{self._calls}"
        said = {
            "agent": self._agent_name,
            "req_id": mark,
            "computer": self._computer_name,
            "tool_name": TOOL,
            "params": {**PARAMETERS, "mark": mark},
            "timeout": SECONDS,
        }
        packed = orjson.dumps([CALL, said])
        began = perf_counter()
        [answer] = await self._agent.ask_packed(packed)
        took = perf_counter() - began
        assert answer == result(mark), f"the call {mark} was answered {answer}"
        return took

    def _answer(self, event: str, said: Any) -> Any:
        """Answer at once."""
        if event != CALL:
            return None
        mark = said["req_id"]
        assert said["params"] == {**PARAMETERS, "mark": mark}, f"the Computer was asked {said}"
        return result(mark)

    def close(self) -> None:
        """Close the Agent first: it then receives no notifications."""
        self._agent.close()
        self._computer.close()


def result(mark: str) -> dict[str, Any]:
    """Return a result as published Computers write it."""
    return {
        "meta": None,
        "content": [{"type": "text", "text": RESULT + mark, "annotations": None, "meta": None}],
        "structuredContent": None,
        "isError": False,
    }


def _hear_nothing(event: str, said: Any) -> None:
    """An Agent receives no requests."""
