"""`palaver status` and `palaver tail`: the state of the running node, and its live events."""

import asyncio
import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from bridge.cli.output import ConfigFile, Json, Output, ask, node_directory
from bridge.control.client import stream_node
from bridge.observability.live_event_text import TYPES, live_line, live_style


def status(path: ConfigFile = None, as_json: Json = False) -> None:
    """Show the state of the running node.

    Example: palaver status --json"""
    Output(as_json=as_json).show(ask(path, "status"))


_KINDS = f"{', '.join(TYPES[:-1])} or {TYPES[-1]}"


def tail(
    agent: Annotated[
        list[str] | None, typer.Option("--agent", help="Only events of this agent: an address or an id. Repeatable.")
    ] = None,
    node: Annotated[list[str] | None, typer.Option("--node", help="Only events of this node. Repeatable.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help=f"Only events of this type: {_KINDS}. Repeatable.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only events of this task: its key or an id. Repeatable.")
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show events as they happen, until Ctrl-C: agents that register, leave or change, steps and progress of
    tasks, and messages that nodes exchange about both.

    Example: palaver tail --agent worker-1 --type task"""
    given = {"agents": agent, "nodes": node, "types": types, "tasks": task}
    asyncio.run(_watch(path, {name: value for name, value in given.items() if value}, Output(as_json=as_json)))


async def _watch(path: Path | None, given: dict[str, Any], output: Output) -> None:
    async with contextlib.aclosing(stream_node(node_directory(path), "tail", given)) as items:
        async for item in items:
            if output.as_json:
                output.show(item)
            elif item.get("type") == "listening":
                output.err.print("Listening. Press Ctrl-C to stop.")
            else:
                output.out.print(Text(live_line(item), live_style(item)))
