"""Run by a published environment's Python: the tools of a Computer in the tests, an MCP server on stdio.

The file that TOOLS_TELL names gets a line of JSON when `slow` begins, ends or is cancelled.
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from mcp.server.fastmcp import FastMCP, Image

PR_SET_PDEATHSIG = 1

server = FastMCP("tools")


def tell(word: str, **more: Any) -> None:
    with Path(os.environ["TOOLS_TELL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"word": word, **more}) + "\n")


@server.tool()
def add(a: int, b: int) -> int:
    """Return the sum."""
    return a + b


@server.tool()
def echo(text: str) -> str:
    """Return the same text."""
    return text


@server.tool()
async def slow(seconds: float) -> str:
    """Take that long, unless cancelled."""
    tell("begin")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        tell("cancelled")
        raise
    tell("end")
    return "slept"


@server.tool()
def fail() -> str:
    """Fail always."""
    raise ValueError("this tool always fails")


@server.tool()
def large(size: int) -> Image:
    """Return an image of that many bytes, each the low byte of its position."""
    return Image(data=bytes(position & 0xFF for position in range(size)), format="png")


@server.resource("window://palaver.tools/board", name="board", mime_type="text/plain")
def board() -> str:
    """Return the content of the desktop."""
    return "written on the board"


def main() -> None:
    if sys.platform == "linux":
        # A Computer that is killed ends nothing itself.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    server.run("stdio")


if __name__ == "__main__":
    main()
