"""All commands about agents and tasks."""

from typing import Any

import pytest

from bridge.control.agents.commands import COMMANDS, STREAMS
from storage.errors import LocalError
from tests.support.operated import Operated

JUNK: dict[str, Any] = {
    "agent": "\0",
    "address": 7,
    "task": ["a"],
    "limit": 10**30,
    "to": {"a": 1},
    "prompt": "\ud800",
    "types": "task",
    "states": [7],
    "capabilities": [""] * 100,
    "metadata": [1],
    "timeout_ms": -1,
}


@pytest.mark.parametrize("name", sorted({**COMMANDS, **STREAMS}))
async def test_a_command_answers_or_raises_a_local_error(node: Operated, name: str) -> None:
    """With any arguments the answer is valid JSON, or the error has advice."""
    long = dict.fromkeys(JUNK, "x" * 5_000)
    texts = dict.fromkeys(JUNK, "a@b@c")
    refusals: list[LocalError] = []
    for given in ({}, JUNK, dict.fromkeys(JUNK), long, texts, {**texts, "metadata": {"a": 1}}):
        try:
            if name in COMMANDS:
                await node.ask(name, **given)
            elif name != "tail":
                await node.whole(name, **given)
            else:
                async with node.stream(name, **given) as items:
                    await anext(items)
        except LocalError as refused:
            refusals.append(refused)
    assert all(one.problem.endswith((".", "?")) and one.advice for one in refusals)
    assert node.observer.problems == []
