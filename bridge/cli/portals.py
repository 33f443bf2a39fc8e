"""`palaver portals`: the rooms in which agents of the running node are."""

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
    help="Look at the rooms in which agents of the running node are, or have them leave for good.",
    no_args_is_help=True,
)

# Seconds for a few users: a homeserver lets application services leave one by one, and may take its time.
REMOVING = 600.0
NODES = "nodes"


@app.command("list")
def list_(
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", help="Go on after the room with this id.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List them by their ids: what each is, and how many are in it."""
    answer = ask(path, "portals-list", limit=limit, after=after)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    made = table("room", "kind", "namespace", "name", "members", "agents")
    for one in answer["portals"]:
        name = one["name"] or one["alias"]
        add(made, one["room_id"], one["kind"], one["namespace"], name, one["members"], one["ghosts"])
    if answer["portals"]:
        console.print(made)
    else:
        console.print("No agent of this node is in any room.")
    if answer["next"] is not None:
        console.print(lines(f"There are more: go on with --after '{answer['next']}'"))


@app.command()
def remove(
    room: Annotated[
        str | None,
        typer.Argument(help="Its id, an alias, or the namespace whose room it is.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Have all agents leave a room, and let nobody be led there any more. What cannot be done is told, and
    keeps nothing else from being done; given again, it goes on with what is left."""
    output = Output(as_json=as_json)
    if (room is None) is not everything:
        raise LocalError("It is not clear which room is meant.", "Name one, or all with --all.")
    rooms = _all(path) if room is None else [ask(path, "portals-remove", room=room, look=True)["room_id"]]
    if rooms and not yes:
        _confirm(output, rooms)
    removed = [_remove(path, one) for one in rooms]
    output.show({"portals": removed}, lambda console: _removed(console, removed))
    if any(_problems(one) for one in removed):
        raise typer.Exit(FAILED)


def _all(path: Path | None) -> list[str]:
    rooms: list[str] = []
    after = None
    while True:
        answer = ask(path, "portals-list", limit=500, after=after)
        rooms += [one["room_id"] for one in answer["portals"] if one["kind"] != NODES]
        after = answer["next"]
        if after is None:
            return rooms


def _remove(path: Path | None, room_id: str) -> dict[str, Any]:
    removed: dict[str, Any] = {"room_id": room_id, "steps": [], "users": []}
    after = None
    while True:
        answer = ask(path, "portals-remove", patience=REMOVING, room=room_id, after=after)
        removed["steps"] += answer["steps"]
        removed["users"] += answer["users"]
        after = answer["next"]
        if after is None:
            return removed


def _confirm(output: Output, rooms: Sequence[str]) -> None:
    if output.as_json or not sys.stdin.isatty():
        raise LocalError(
            "Removing portals needs a yes, and there is no terminal to ask on.", "Say it with --yes."
        )
    output.out.print(lines(f"All agents of this node leave {', '.join(rooms)}."))
    typer.confirm("Shall they?", abort=True)


def _problems(removed: Mapping[str, Any]) -> list[str]:
    return [one["problem"] for one in (*removed["steps"], *removed["users"]) if one["problem"] is not None]


def _removed(console: Console, removed: Sequence[Mapping[str, Any]]) -> None:
    if not removed:
        console.print("No agent of this node is in any room.")
    for one in removed:
        console.print(cell(one["room_id"], "bold"))
        made = table("", "")
        for step in one["steps"]:
            add(made, step["done"], _outcome(step["problem"], "done"))
        for user in one["users"]:
            add(made, user["user_id"], _outcome(user["problem"], "left"))
        if one["steps"] or one["users"]:
            console.print(made)
        else:
            console.print("  Nobody of this node is there any more.")


def _outcome(problem: str | None, done: str) -> Text:
    return cell(done, "green") if problem is None else cell(problem, "red")
