"""`palaver portals`: rooms that agents of the running node have joined."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, lines, table
from storage.errors import LocalError

app = typer.Typer(
    help="List the rooms that agents of the running node have joined, or remove the agents from them.",
    no_args_is_help=True,
)

# Seconds for a batch of users. An application service makes one request for each, which may be slow.
REMOVE_TIMEOUT = 600.0
NODES = "nodes"


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of rooms.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", help="Continue after the room with this id.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the rooms by id, with their kind and their numbers of members.

    Example: palaver portals list --limit 100"""
    answer = ask(path, "portals-list", limit=limit, after=after)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    made = table("room", "kind", "namespace", "name", "members", "agents")
    for portal in answer["portals"]:
        name = portal["name"] or portal["alias"]
        counts = (portal["members"], portal["ghosts"])
        add(made, portal["room_id"], portal["kind"], portal["namespace"], name, *counts)
    if answer["portals"]:
        console.print(made)
    else:
        console.print("No agent of this node is in a room.")
    if answer["next"] is not None:
        console.print(lines(f"There are more rooms: continue with --after '{answer['next']}'"))


@app.command()
def remove(
    room: Annotated[
        str | None, typer.Argument(help="The room's id, an alias, or its namespace.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Remove all portals.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Remove all agents from a room, remove its alias and unlist it. What fails is reported; run the command
    again to retry it. The agents stay as long as the alias does.

    Example: palaver portals remove '#agents-default:kitchen.local' --yes"""
    output = Output(as_json=as_json)
    if (room is None) is not everything:
        raise LocalError("The command needs one room or --all.", "Name a room, or use --all for all rooms.")
    rooms = _all(path) if room is None else [ask(path, "portals-remove", room=room, look=True)["room_id"]]
    if rooms and not yes:
        _confirm(output, rooms)
    removed = [_remove(path, room_id) for room_id in rooms]
    output.show({"portals": removed}, lambda console: _removed(console, removed))
    if any(_problems(portal) for portal in removed):
        raise typer.Exit(FAILED)


def _all(path: Path | None) -> list[str]:
    rooms: list[str] = []
    after = None
    while True:
        answer = ask(path, "portals-list", limit=500, after=after)
        rooms += [portal["room_id"] for portal in answer["portals"] if portal["kind"] != NODES]
        after = answer["next"]
        if after is None:
            return rooms


def _remove(path: Path | None, room_id: str) -> dict[str, Any]:
    removed: dict[str, Any] = {"room_id": room_id, "steps": [], "users": []}
    after = None
    while True:
        answer = ask(path, "portals-remove", timeout_secs=REMOVE_TIMEOUT, room=room_id, after=after)
        removed["steps"] += answer["steps"]
        removed["users"] += answer["users"]
        after = answer["next"]
        if after is None:
            return removed


def _confirm(output: Output, rooms: Sequence[str]) -> None:
    if output.as_json or not sys.stdin.isatty():
        raise LocalError(
            "Removing portals needs a confirmation, and there is no terminal to ask on.", "Confirm with --yes."
        )
    output.out.print(lines(f"All agents of this node will leave {', '.join(rooms)}."))
    typer.confirm("Continue?", abort=True)


def _problems(removed: Mapping[str, Any]) -> list[str]:
    results = (*removed["steps"], *removed["users"])
    return [result["problem"] for result in results if result["problem"] is not None]


def _removed(console: Console, removed: Sequence[Mapping[str, Any]]) -> None:
    if not removed:
        console.print("No agent of this node is in a room.")
    for portal in removed:
        console.print(cell(portal["room_id"], "bold"))
        made = table("", "")
        for step in portal["steps"]:
            add(made, step["done"], _outcome(step["problem"], "done"))
        for user in portal["users"]:
            add(made, user["user_id"], _outcome(user["problem"], "left"))
        if portal["steps"] or portal["users"]:
            console.print(made)
        else:
            console.print("  No user of this node is in the room.")


def _outcome(problem: str | None, done: str) -> Text:
    return cell(done, "green") if problem is None else cell(problem, "red")
