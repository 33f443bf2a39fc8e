"""The tutorial `docs/getting-started.md`, run as written, except for the ports."""

import asyncio
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.node import TIMEOUT, MakeNode, Node

pytestmark = pytest.mark.process
TUTORIAL = Path(__file__).parents[2] / "docs/getting-started.md"
RUN = "palaver run"
_BLOCK = re.compile(r"^```(sh|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Shell:
    """Runs the command blocks in the node's directory."""

    node: Node

    async def run(self, commands: str) -> str:
        path = f"{self.node.command.parent}:{self.node.env['PATH']}"
        process = await asyncio.create_subprocess_exec(
            "sh", "-e", "-c", commands, cwd=self.node.directory, env={**self.node.env, "PATH": path},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert process.returncode == 0, f"{commands}: {out.decode()}{err.decode()}"
        return out.decode()


async def test_the_tutorial_works_as_written(make_node: MakeNode) -> None:
    """Each block succeeds, and an output block is what the block before it printed last."""
    node = make_node()
    text = TUTORIAL.read_text("utf-8").replace("localhost:7676", f"localhost:{node.port}")
    blocks = _BLOCK.findall(text)
    assert RUN in [commands.strip() for _, commands in blocks]
    assert any(kind == "output" for kind, _ in blocks)
    shell, printed = Shell(node), ""
    for kind, content in blocks:
        if kind == "output":
            assert printed.endswith(content), f"{content!r} was expected at the end of {printed!r}"
        elif content.strip() == RUN:
            await node.start()
        else:
            printed = await shell.run(content)
    assert await node.stop() == 0
