"""`palaver offices call`: a tool of a Computer, called by whoever operates the node."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bridge.cli.options import ConfigFile, Json, loaded
from bridge.cli.output import FAILED, Output
from bridge.cli.task_waiting import INTERRUPTED
from bridge.connectors.offices.call_command import NoOrder, read_object
from bridge.connectors.offices.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.relay import LONGEST_CALL
from bridge.connectors.offices.tool_result import Outcome
from bridge.service.control_client import stream_node
from bridge.task_error import ErrorCode
from bridge.task_exit import CANCELLED
from bridge.task_exit import CODES as OF_TASKS
from bridge.terminal_text import harmless, harmless_lines
from storage.errors import LocalError

WRONG_USAGE: Final = 2
MOST_READ: Final = 1_048_576
"""Characters from standard input."""
# As for a task. What else goes wrong is 1, be it that the tool fails or that somebody refuses the call.
EXIT: Final[Mapping[str, int]] = {
    Outcome.DONE: 0,
    Outcome.NOT_FOUND: OF_TASKS[ErrorCode.AGENT_NOT_FOUND],
    Outcome.TIMED_OUT: OF_TASKS[ErrorCode.TIMEOUT],
    Outcome.INTERRUPTED: OF_TASKS[ErrorCode.NODE_UNREACHABLE],
    Outcome.CANCELLED: CANCELLED,
}
CODES: Final = ", ".join(f"{code} {outcome.replace('_', ' ')}" for outcome, code in EXIT.items())


def call(
    office: Annotated[str, typer.Argument(help="Its id.", show_default=False)],
    computer: Annotated[
        str, typer.Argument(help="What the Computer is called in the office.", show_default=False)
    ],
    tool: Annotated[str, typer.Argument(help="What the tool is called.", show_default=False)],
    params: Annotated[
        str,
        typer.Argument(
            metavar="[JSON]",
            help="The parameters, an object of JSON; - reads it from standard input. Left out: none.",
            show_default=False,
        ),
    ] = "{}",
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, max=LONGEST_CALL, help="Seconds that the tool has.")
    ] = DEFAULT_SECONDS,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Call a tool of a Computer, and print what it says. The rules of approval hold, the call is written
    down, and its room shows it. Ctrl-C has the Computer stop."""
    output = Output(as_json=as_json)
    text = sys.stdin.read(MOST_READ) if params == "-" else params
    read = read_object(text)
    if isinstance(read, NoOrder):
        _wrong(output, read.sentence)
    given = {"office": office, "computer": computer, "tool": tool, "params": text, "timeout": timeout}
    data_dir = loaded(path).config.data_dir
    try:
        came = asyncio.run(_call(data_dir, given))
    except KeyboardInterrupt:
        output.err.print("The Computer is told to stop.", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if output.as_json:
        output.show(came)
    else:
        _tell(output, came)
    raise typer.Exit(EXIT.get(came["outcome"], FAILED))


async def _call(data_dir: Path, given: dict[str, Any]) -> dict[str, Any]:
    async with contextlib.aclosing(stream_node(data_dir, "offices-call", given)) as items:
        async for item in items:
            return item
    raise LocalError("The node has not said what came of it.", "`palaver offices calls` tells.")


def _wrong(output: Output, sentence: str) -> None:
    advice = 'Write an object of JSON, like {"a": 1}.'
    if output.as_json:
        output.show({"error": {"problem": sentence, "advice": advice}})
    else:
        output.err.print(harmless(f"{sentence} {advice}"), markup=False)
    raise typer.Exit(WRONG_USAGE)


def _tell(output: Output, came: Mapping[str, Any]) -> None:
    """On standard output stands what the tool has said, and nothing else."""
    if came["outcome"] in {Outcome.DONE, Outcome.ERROR}:
        _write(came["text"])
        if came["outcome"] == Outcome.ERROR:
            output.err.print("The tool has failed.", markup=False)
    else:
        output.err.print(harmless_lines(came["text"]), markup=False)


def _write(text: str) -> None:
    """As it is; only on a terminal of somebody made harmless."""
    line = "" if not text or text.endswith("\n") else "\n"
    if sys.stdout.isatty():
        sys.stdout.write(harmless_lines(text) + line)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write((text + line).encode("utf-8", "replace"))
    sys.stdout.flush()
