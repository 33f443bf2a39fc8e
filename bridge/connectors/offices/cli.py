"""`palaver offices`: offices, calls of their tools, and tokens for Agents and Computers."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, lines, node_directory, table
from bridge.cli.task import INTERRUPTED
from bridge.clock import now_ms
from bridge.config.files import new_secret_file
from bridge.connectors.offices.calls.chat_command import InvalidCommand, read_object
from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.protocol.relay import MAX_TIMEOUT
from bridge.connectors.offices.protocol.tools import Outcome
from bridge.control.client import stream_node
from bridge.tasks.errors import ErrorCode
from bridge.tasks.view import CANCELLED
from bridge.tasks.view import EXIT_CODES as TASK_EXIT_CODES
from bridge.text.terminal import harmless, harmless_lines
from bridge.text.times import ago, moment, seconds_of
from storage.errors import LocalError

WRONG_USAGE: Final = 2
MAX_INPUT: Final = 1_048_576
"""Characters read from standard input."""
# The codes of tasks. Other failures exit with 1: the tool fails, or the call is refused.
EXIT_CODES: Final[Mapping[str, int]] = {
    Outcome.DONE: 0,
    Outcome.NOT_FOUND: TASK_EXIT_CODES[ErrorCode.AGENT_NOT_FOUND],
    Outcome.TIMED_OUT: TASK_EXIT_CODES[ErrorCode.TIMEOUT],
    Outcome.INTERRUPTED: TASK_EXIT_CODES[ErrorCode.NODE_UNREACHABLE],
    Outcome.CANCELLED: CANCELLED,
}
CODES: Final = ", ".join(f"{code} {outcome.replace('_', ' ')}" for outcome, code in EXIT_CODES.items())
app = typer.Typer(help="Manage offices, in which Agents call the tools of Computers.", no_args_is_help=True)
token = typer.Typer(help="Manage the tokens with which Agents and Computers connect.", no_args_is_help=True)
app.add_typer(token, name="token")


# ---- a call by an operator -------------------------------------------------------------------------------


@app.command("call", epilog=f"Exit codes: {CODES}; 2 wrong usage, 130 Ctrl-C, 1 any other failure.")
def call(
    office: Annotated[str, typer.Argument(help="The office's id.", show_default=False)],
    computer: Annotated[str, typer.Argument(help="The Computer's name in the office.", show_default=False)],
    tool: Annotated[str, typer.Argument(help="The tool's name.", show_default=False)],
    params: Annotated[
        str,
        typer.Argument(
            metavar="[JSON]",
            help="The parameters as a JSON object; - reads them from standard input. Default: none.",
            show_default=False,
        ),
    ] = "{}",
    timeout: Annotated[
        int, typer.Option("--timeout", min=1, max=MAX_TIMEOUT, help="Timeout in seconds.")
    ] = DEFAULT_SECONDS,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Call a tool of a Computer and print its output. Approval rules apply, and the call is recorded and
    shown in the office's room. Ctrl-C cancels it.

    Example: palaver offices call build-7 bench add '{"a": 1, "b": 2}' --timeout 120"""
    output = Output(as_json=as_json)
    text = sys.stdin.read(MAX_INPUT) if params == "-" else params
    read = read_object(text)
    if isinstance(read, InvalidCommand):
        _wrong(output, read.reason)
    given = {"office": office, "computer": computer, "tool": tool, "params": text, "timeout": timeout}
    data_dir = node_directory(path)
    try:
        result = asyncio.run(_call(data_dir, given))
    except KeyboardInterrupt:
        output.err.print("The Computer is asked to cancel the call.", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    if output.as_json:
        output.show(result)
    else:
        _print_result(output, result)
    raise typer.Exit(EXIT_CODES.get(result["outcome"], FAILED))


async def _call(data_dir: Path, given: dict[str, Any]) -> dict[str, Any]:
    async with contextlib.aclosing(stream_node(data_dir, "offices-call", given)) as items:
        async for item in items:
            return item
    raise LocalError("The node did not report the outcome.", "`palaver offices calls` shows it.")


def _wrong(output: Output, problem: str) -> None:
    advice = 'Write a JSON object, like {"a": 1}.'
    if output.as_json:
        output.show({"error": {"problem": problem, "advice": advice}})
    else:
        output.err.print(harmless(f"{problem} {advice}"), markup=False)
    raise typer.Exit(WRONG_USAGE)


def _print_result(output: Output, result: Mapping[str, Any]) -> None:
    """Standard output receives only the output of the tool."""
    if result["outcome"] in {Outcome.DONE, Outcome.ERROR}:
        _write(result["text"])
        if result["outcome"] == Outcome.ERROR:
            output.err.print("The tool has failed.", markup=False)
    else:
        output.err.print(harmless_lines(result["text"]), markup=False)


def _write(text: str) -> None:
    """Write the text unchanged; on a terminal, escape control characters."""
    end = "" if not text or text.endswith("\n") else "\n"
    if sys.stdout.isatty():
        sys.stdout.write(harmless_lines(text) + end)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write((text + end).encode("utf-8", "replace"))
    sys.stdout.flush()


# ---- tokens ----------------------------------------------------------------------------------------------


@token.command("create")
def create(
    owner: Annotated[str, typer.Argument(help="The owner, as shown in the audit log.", show_default=False)],
    role: Annotated[
        list[str] | None, typer.Option("--role", help="agent or computer. Can be repeated. Default: both.")
    ] = None,
    office: Annotated[
        list[str] | None,
        typer.Option(
            "--office",
            help="An office's id, in which * stands for any characters. Can be repeated. Default: all offices.",
        ),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="Validity, such as 90s, 15m, 2h or 30d. Default: no limit.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Write the token to this file, readable only to you, instead of printing it."
        ),
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Create a token. It is shown only once.

    Example: palaver offices token create 'the lab' --role computer --office 'build-*'"""
    given: dict[str, Any] = {"owner": owner, "roles": role or None, "offices": office or None}
    given["expires_in_secs"] = None if expires_in is None else _seconds(expires_in)
    with contextlib.ExitStack() as stack:
        write = None if file is None else stack.enter_context(new_secret_file(file))
        answer = ask(path, "offices-token-create", **given)
        if write is not None:
            write(answer.pop("token"))
    Output(as_json=as_json).show(answer, lambda console: _created(console, answer, file))


def _seconds(period: str) -> int:
    seconds = seconds_of(period)
    if seconds is None:
        raise LocalError(f"{period} is not a valid period.", "Write a number and its unit: 90s, 15m, 2h, 30d.")
    return seconds


def _created(console: Console, answer: Mapping[str, Any], file: Path | None) -> None:
    if file is None:
        console.print(answer["token"], markup=False)
    else:
        console.print(lines(f"The token {answer['token_id']} of {answer['owner']} is stored in {file}."))


@token.command("list")
def list_tokens(path: ConfigFile = None, as_json: Json = False) -> None:
    """List the tokens by id, with owners, permissions and last use. Ids are not secret.

    Example: palaver offices token list"""
    answer = ask(path, "offices-token-list")
    Output(as_json=as_json).show(answer, lambda console: _tokens(console, answer))


def _tokens(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tokens"]:
        console.print("There are no tokens, so no client can connect.")
        return
    tokens = table("owner", "token", "state", "roles", "offices", "created", "expires", "used")
    for one in answer["tokens"]:
        made_at, offices = moment(one["made_at"]), one["offices"] or "all"
        until = moment(one["expires_at"]) if one["expires_at"] else "never"
        used = ago(one["last_used_at"], now_ms()) if one["last_used_at"] else "never"
        add(tokens, one["owner"], one["token_id"], one["state"], one["roles"], offices, made_at, until, used)
    console.print(tokens)


@token.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id.", show_default=False)],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Revoke a token and disconnect all clients that are connected with it.

    Example: palaver offices token revoke 5f2c9a"""
    answer = ask(path, "offices-token-revoke", token_id=token_id)
    Output(as_json=as_json).show(answer, lambda console: console.print(lines(f"Revoked: {answer['revoked']}.")))


# ---- offices and calls -----------------------------------------------------------------------------------


@app.command("list")
def list_offices(path: ConfigFile = None, as_json: Json = False) -> None:
    """List the offices that have members.

    Example: palaver offices list"""
    answer = ask(path, "offices-list")
    Output(as_json=as_json).show(answer, lambda console: _offices(console, answer["offices"]))


def _member_name(office: Mapping[str, Any], name: str) -> str:
    """The name, with the user id of a member of another node."""
    user = office.get("elsewhere", {}).get(name)
    return name if user is None else f"{name} ({user})"


def _offices(console: Console, offices: Sequence[Mapping[str, Any]]) -> None:
    if not offices:
        console.print("No office has members.")
        return
    rows = table("office", "agent", "computers")
    for one in offices:
        agent = _member_name(one, one["agent"]) if one["agent"] else "none"
        computers = [_member_name(one, name) for name in one["computers"]]
        add(rows, one["office_id"], agent, computers or "none")
    console.print(rows)


@app.command()
def show(
    office: Annotated[str, typer.Argument(help="The office's id.", show_default=False)],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the members of an office and its most recent calls.

    Example: palaver offices show build-7"""
    answer = ask(path, "offices-show", office=office)

    def shown(console: Console) -> None:
        _offices(console, [answer])
        _calls(console, answer["calls"])

    Output(as_json=as_json).show(answer, shown)


@app.command()
def calls(
    office: Annotated[
        str | None, typer.Option("--office", help="Only calls in this office.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of calls.")] = 50,
    before: Annotated[
        str | None, typer.Option("--before", help="Continue where the previous page ended.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List recorded calls and their outcomes, the newest first. Secrets in parameters are masked.

    Example: palaver offices calls --office build-7"""
    answer = ask(path, "offices-calls", office=office, limit=limit, before=before)

    def shown(console: Console) -> None:
        _calls(console, answer["calls"])
        if answer["next"] is not None:
            console.print(lines(f"There are more: continue with --before {answer['next']}"))

    Output(as_json=as_json).show(answer, shown)


def _calls(console: Console, called: Sequence[Mapping[str, Any]]) -> None:
    if not called:
        console.print("There are no recorded calls.")
        return
    rows = table("called", "office", "agent", "computer", "tool", "outcome", "ms")
    for one in called:
        outcome, took = one["outcome"] or "no answer", "" if one["took_ms"] is None else str(one["took_ms"])
        call_of = (one["office_id"], one["agent"], one["computer"], one["tool_name"])
        add(rows, moment(one["called_at"]), *call_of, outcome, took)
    console.print(rows)
