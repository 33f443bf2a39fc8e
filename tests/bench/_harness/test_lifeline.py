import json
import os
import subprocess
import sys

import pytest

from bench._harness.child import ChildError, child
from bench._harness.lifeline import tell_parent

CHILD = """
import asyncio
from bench._harness.lifeline import lines_from_parent, tell_parent, until_abandoned

async def serve():
    tell_parent(port=7)
    async for line in lines_from_parent():
        tell_parent(heard=line)

asyncio.run(serve())
"""


def test_the_parent_is_told_one_line_of_json(capfd: pytest.CaptureFixture[str]) -> None:
    """Whatever the child has to say about itself."""
    tell_parent(port=7, ready=True)
    assert json.loads(capfd.readouterr().out) == {"port": 7, "ready": True}


async def test_a_child_serves_until_it_is_abandoned() -> None:
    """The end of the pipe is the end of the child, without an error."""
    async with child("server", sys.executable, "-c", CHILD) as server:
        assert json.loads(await server.line(10)) == {"port": 7}
        assert json.loads(await server.ask("more", 10)) == {"heard": "more\n"}
        stdin = server._process.stdin
        assert stdin is not None
        stdin.close()
        with pytest.raises(ChildError, match="server ended with status 0"):
            await server.line(10)


def test_a_child_that_starts_too_late_ends_without_a_word() -> None:
    """The benchmark was killed meanwhile; a traceback would fall into somebody else's terminal."""
    code = "from bench._harness.lifeline import tell_parent; tell_parent(port=7); print('still here')"
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, timeout=20, check=True
        )
    finally:
        os.close(writing)
    assert ended.stderr == b""
