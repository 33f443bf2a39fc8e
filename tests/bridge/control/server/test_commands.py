"""All commands about rooms and servers."""

import pytest

from bridge.control.server.commands import COMMANDS
from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator


@pytest.mark.parametrize("name", sorted(COMMANDS))
async def test_a_command_answers_or_raises_a_local_error(operator: Operator, name: str) -> None:
    """With any arguments the answer is valid JSON, or the error has advice."""
    junk = {"room": "\0", "event": 7, "server": ["a"], "limit": 10**30, "after": {"a": 1}, "type": "\ud800"}
    refusals = []
    for given in ({}, junk, dict.fromkeys(junk), {"limit": True}, {"room": "!" * 5_000, "event": "$" * 5_000}):
        try:
            await operator.ask(name, **given)
        except LocalError as refused:
            refusals.append((refused.problem, refused.advice))
    assert refusals
    assert all(problem.endswith((".", "?")) and advice for problem, advice in refusals)
