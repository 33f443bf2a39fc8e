"""`palaver peers`: the servers that the running node deals with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.asking import ask
from bridge.cli.cells import add, cell, lines, table
from bridge.cli.options import ConfigFile, Json
from bridge.cli.output import FAILED, Output
from bridge.cli.queue import next_attempt, state
from bridge.clock import now_ms
from bridge.time_text import ago, duration
from storage.errors import LocalError

# Seconds. A server that does not answer takes its time at every step.
CHECKING = 300.0
MARKS = {"fine": ("✓", "green"), "warning": ("!", "yellow"), "fault": ("✗", "red")}
SUMMARIES = {
    "fine": "Nothing is wrong with {}.",
    "warning": "{} works, or may; look at what is marked with !.",
    "fault": "{} does not work; begin with the first of what is marked with ✗.",
}

app = typer.Typer(help="Look at the servers that the running node deals with.", no_args_is_help=True)


@app.command("list")
def list_(
    search: Annotated[str | None, typer.Option("--search", help="Only names with this in them.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List them, those in trouble first: what waits for them, and when they were reached last."""
    answer = ask(path, "peers-list", search=search, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["peers"]:
        console.print("No server is known.")
        return
    made = table(
        "server", "known from", "state", "waiting", "lag", "next attempt", "reached", "heard", "last failure"
    )
    for peer in answer["peers"]:
        reached, heard = (ago(peer[name], now_ms()) for name in ("reached_at", "heard_at"))
        waiting = f"{peer['pdus']} + {peer['edus']}" if peer["pdus"] or peer["edus"] else None
        lag = duration(peer["lag_ms"]) if waiting else None
        add(
            made, peer["server"], _known(peer), state(peer), waiting, lag, next_attempt(peer), reached, heard,
            peer["failure"],
        )  # fmt: skip
    console.print(made)
    if answer["total"] > len(answer["peers"]):
        console.print(f"{len(answer['peers'])} of {answer['total']}: use --search or --limit.")


def _known(peer: Mapping[str, Any]) -> str:
    rooms = "1 room" if peer["rooms"] == 1 else f"{peer['rooms']} rooms"
    where = [
        *(["configuration"] if peer["configured"] else []),
        *([rooms] if peer["rooms"] else []),
        *([] if peer["admitted"] else ["not admitted"]),
    ]
    return ", ".join(where) or "its requests"


@app.command()
def check(
    peer: Annotated[str | None, typer.Argument(help="A server.", show_default=False)] = None,
    itself: Annotated[bool, typer.Option("--self", help="This node, as others see it.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say whether a server can be found, reached, believed and spoken with; and if not, what is wrong."""
    if (peer is None) != itself:
        raise LocalError("Which server is to be checked?", "Name one, or say --self for this node itself.")
    output = Output(as_json=as_json)
    if not as_json and output.err.is_terminal:
        with output.err.status("Looking …"):
            answer = _checked(path, peer, itself=itself)
    else:
        answer = _checked(path, peer, itself=itself)
    output.show(answer, lambda console: _findings(console, answer))
    if answer["verdict"] == "fault":
        raise typer.Exit(FAILED)


def _checked(path: Path | None, peer: str | None, *, itself: bool) -> dict[str, Any]:
    return ask(path, "peers-check", patience=CHECKING, server=peer, self=itself or None)


def _findings(console: Console, answer: Mapping[str, Any]) -> None:
    for finding in answer["findings"]:
        mark, style = MARKS.get(finding["verdict"], ("?", "yellow"))
        subject = cell(finding["subject"], "bold")
        console.print(Text.assemble((mark, style), " ", subject, "  ", cell(finding["text"])))
        if finding["advice"]:
            console.print(Text.assemble("    → ", cell(finding["advice"])))
    console.print()
    console.print(lines(SUMMARIES.get(answer["verdict"], "").format(answer["server"])))


@app.command()
def retry(
    peer: Annotated[str | None, typer.Argument(help="A server.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All for which something waits.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Try a server now that does not answer, and look anew for the way to it."""
    if (peer is None) != every:
        raise LocalError("Which server is to be tried?", "Name one, or say --all.")
    answer = ask(path, "peers-retry", server=peer, all=every)
    Output(as_json=as_json).show(answer, lambda console: _retried(console, answer))


def _retried(console: Console, answer: Mapping[str, Any]) -> None:
    for one in answer["tried"]:
        said = "is tried now" if one["waiting"] else "will be tried: nothing waits for it now"
        console.print(lines(f"{one['server']} {said}."))
    for server in answer["not_admitted"]:
        console.print(lines(f"{server} is left alone: the configuration does not admit it.", "yellow"))
    if not answer["tried"] and not answer["not_admitted"]:
        console.print("Nothing waits for anybody.")
    elif answer["tried"]:
        console.print("`palaver queue` shows how it ended.", markup=False)
