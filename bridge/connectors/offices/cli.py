"""`palaver offices`: the offices in which Agents meet Computers, and who may come into them."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, lines, loaded, table
from bridge.cli.task import INTERRUPTED
from bridge.clock import now_ms
from bridge.config.files import new_secret_file
from bridge.connectors.offices.calls.chat_command import NoOrder, read_object
from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS
from bridge.connectors.offices.protocol.relay import LONGEST_CALL
from bridge.connectors.offices.protocol.tools import Outcome
from bridge.control.client import stream_node
from bridge.tasks.errors import ErrorCode
from bridge.tasks.view import CANCELLED
from bridge.tasks.view import EXIT_CODES as OF_TASKS
from bridge.text.terminal import harmless, harmless_lines
from bridge.text.times import ago, moment, seconds_of
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
app = typer.Typer(help="Look after offices, in which Agents meet Computers.", no_args_is_help=True)
token = typer.Typer(help="The tokens with which Agents and Computers connect.", no_args_is_help=True)
app.add_typer(token, name="token")


# ---- a call by an operator -------------------------------------------------------------------------------


@app.command("call", epilog=f"Ends with {CODES}; 2 is wrong usage, 130 Ctrl-C, and 1 everything else.")
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


# ---- tokens ----------------------------------------------------------------------------------------------


@token.command("create")
def create(
    owner: Annotated[str, typer.Argument(help="Whose it is: what audits will say.", show_default=False)],
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="agent or computer; may be given again. Left out: both."),
    ] = None,
    office: Annotated[
        list[str] | None,
        typer.Option(
            "--office",
            help="Only this office, or those that fit; * stands for any characters; may be given again.",
        ),
    ] = None,
    expires_in: Annotated[
        str | None, typer.Option("--expires-in", help="For how long it is good, such as 90s, 15m, 2h or 30d.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Write the token there, readable to you alone, and do not print it."
        ),
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a token. It is shown now, and never again."""
    given: dict[str, Any] = {"owner": owner, "roles": role or None, "offices": office or None}
    given["expires_in_secs"] = None if expires_in is None else _seconds(expires_in)
    with contextlib.ExitStack() as stack:
        write = None if file is None else stack.enter_context(new_secret_file(file))
        answer = ask(path, "offices-token-create", **given)
        if write is not None:
            write(answer.pop("token"))
    Output(as_json=as_json).show(answer, lambda console: _created(console, answer, file))


def _seconds(span: str) -> int:
    seconds = seconds_of(span)
    if seconds is None:
        raise LocalError(f"{span} is not a span of time.", "Write a number and its unit: 90s, 15m, 2h, 30d.")
    return seconds


def _created(console: Console, answer: Mapping[str, Any], file: Path | None) -> None:
    if file is None:
        console.print(answer["token"], markup=False)
    else:
        console.print(lines(f"The token {answer['token_id']} of {answer['owner']} is in {file}."))


@token.command("list")
def list_tokens(path: ConfigFile = None, as_json: Json = False) -> None:
    """List tokens by their ids, which are no secrets: whose they are, what they allow, and their use."""
    answer = ask(path, "offices-token-list")
    Output(as_json=as_json).show(answer, lambda console: _tokens(console, answer))


def _tokens(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tokens"]:
        console.print("There are no tokens, so nobody can connect.")
        return
    made = table("owner", "token", "state", "roles", "offices", "made", "good until", "used")
    for one in answer["tokens"]:
        made_at, offices = moment(one["made_at"]), one["offices"] or "all"
        until = moment(one["expires_at"]) if one["expires_at"] else "ever"
        used = ago(one["last_used_at"], now_ms()) if one["last_used_at"] else "never"
        add(made, one["owner"], one["token_id"], one["state"], one["roles"], offices, made_at, until, used)
    console.print(made)


@token.command("revoke")
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The token's id.", show_default=False)],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a token worthless. Whoever is connected with it has to leave."""
    answer = ask(path, "offices-token-revoke", token_id=token_id)
    Output(as_json=as_json).show(
        answer, lambda console: console.print(lines(f"Revoked: {answer['revoked']}."))
    )


# ---- what goes on ---------------------------------------------------------------------------------------


@app.command("list")
def list_offices(path: ConfigFile = None, as_json: Json = False) -> None:
    """List the offices in which somebody is now."""
    answer = ask(path, "offices-list")
    Output(as_json=as_json).show(answer, lambda console: _offices(console, answer["offices"]))


def _named(office: Mapping[str, Any], name: str) -> str:
    """With the user that a member of another node is there."""
    user = office.get("elsewhere", {}).get(name)
    return name if user is None else f"{name} ({user})"


def _offices(console: Console, offices: Sequence[Mapping[str, Any]]) -> None:
    if not offices:
        console.print("Nobody is in any office.")
        return
    made = table("office", "agent", "computers")
    for one in offices:
        agent = _named(one, one["agent"]) if one["agent"] else "none"
        computers = [_named(one, name) for name in one["computers"]]
        add(made, one["office_id"], agent, computers or "none")
    console.print(made)


@app.command()
def show(
    office: Annotated[str, typer.Argument(help="Its id.", show_default=False)],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show who is in an office, and what was called there last."""
    answer = ask(path, "offices-show", office=office)

    def shown(console: Console) -> None:
        _offices(console, [answer])
        _calls(console, answer["calls"])

    Output(as_json=as_json).show(answer, shown)


@app.command()
def calls(
    office: Annotated[
        str | None, typer.Option("--office", help="Of this office alone.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 50,
    before: Annotated[
        str | None,
        typer.Option("--before", help="Go on where the page before ended.", show_default=False),
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List what Agents have called, the newest first, and what it came to. Secrets are not kept."""
    answer = ask(path, "offices-calls", office=office, limit=limit, before=before)

    def shown(console: Console) -> None:
        _calls(console, answer["calls"])
        if answer["next"] is not None:
            console.print(lines(f"There are more: go on with --before {answer['next']}"))

    Output(as_json=as_json).show(answer, shown)


def _calls(console: Console, called: Sequence[Mapping[str, Any]]) -> None:
    if not called:
        console.print("Nothing was called.")
        return
    made = table("called", "office", "agent", "computer", "tool", "outcome", "ms")
    for one in called:
        outcome, took = one["outcome"] or "no answer", "" if one["took_ms"] is None else str(one["took_ms"])
        who = (one["office_id"], one["agent"], one["computer"], one["tool_name"])
        add(made, moment(one["called_at"]), *who, outcome, took)
    console.print(made)
