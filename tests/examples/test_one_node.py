"""`examples/one_node.py`."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.support.node import ROOT

pytestmark = [pytest.mark.process, pytest.mark.timeout(900)]
TIMEOUT = 600.0


async def test_the_tour_succeeds(palaver: Path) -> None:
    """Every command in it succeeds, and no process is left."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(ROOT / "examples" / "one_node.py"), env={**os.environ, "PALAVER": str(palaver)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0, out.decode()
    assert "This node is healthy." in out.decode()
    assert "exit code 0" in out.decode()
