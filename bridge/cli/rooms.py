"""`palaver rooms`: the rooms that the running node is in."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, facts, lines, table
from bridge.text.event_graph import beyond, dot, short
from bridge.text.event_graph import lines as graph_lines
from bridge.text.times import moment
from storage.errors import LocalError

app = typer.Typer(help="Look at the rooms that the running node is in, or leave them.", no_args_is_help=True)

Room = Annotated[
    str, typer.Argument(help="Its id, the beginning of its id, an alias, or its name.", show_default=False)
]
# Seconds for a few users: when an invited one leaves, servers are asked that may not answer.
LEAVING = 600.0
STYLES = {"accepted": "", "soft_failed": "yellow", "rejected": "red"}


@app.command("list")
def list_(
    search: Annotated[
        str | None, typer.Option("--search", help="Only rooms with this in their id, name, alias or topic.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", help="Go on after the room with this id.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List them by their ids: name, version, and how many are in them."""
    answer = ask(path, "rooms-list", search=search, limit=limit, after=after)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    made = table("room", "name", "version", "members", "local", "servers", "ends")
    for room in answer["rooms"]:
        name = room["name"] or room["canonical_alias"]
        counts = (room["members"], room["local_members"], room["servers"], room["extremities"])
        add(made, room["room_id"], name, room["room_version"], *counts)
    if answer["rooms"]:
        console.print(made)
    else:
        console.print("No room.")
    if answer["next"] is not None:
        console.print(lines(f"There are more: go on with --after '{answer['next']}'"))


@app.command()
def show(room: Room, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show what a room is, who is in it, who may do what, and what happened last."""
    answer = ask(path, "rooms-show", room=room)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, room: Mapping[str, Any]) -> None:
    levels = room["power_levels"]
    console.print(
        facts(
            [
                ("room", room["room_id"]),
                ("name", room["name"]),
                ("topic", room["topic"]),
                ("type", room["room_type"]),
                ("aliases", [room["canonical_alias"]] if room["canonical_alias"] else []),
                ("aliases here", room["aliases_here"]),
                ("published here", room["published_here"]),
                ("version", room["room_version"]),
                ("made by", room["creators"]),
                ("made at", moment(room["created_at"])),
                ("who may join", _join_rule(room)),
                ("history", room["history_visibility"]),
                ("encryption", room["encryption"]),
                ("federates", room["federates"]),
                ("server ACL", room["has_server_acl"]),
                ("replaced by", room["replaced_by"]),
                ("members", room["memberships"]),
                ("by server", room["by_server"]),
                ("of this server", room["local_users"]),
                ("power", _power(levels)),
                ("to speak", levels["events_default"]),
                ("to change state", levels["state_default"]),
                ("to invite", levels["invite"]),
                ("to kick, ban, redact", f"{levels['kick']}, {levels['ban']}, {levels['redact']}"),
                ("ends of the graph", room["extremities"]),
            ]
        )
    )
    made = table("last events", "at", "type", "key", "sender")
    for event in room["latest_events"]:
        at = moment(event["origin_server_ts"])
        add(made, short(event["event_id"]), at, event["type"], event["state_key"], event["sender"])
    console.print(made)


def _join_rule(room: Mapping[str, Any]) -> str | None:
    rule: str | None = room["join_rule"]
    admitting = room["allowed_room_ids"]
    return f"{rule}: members of {', '.join(admitting)}" if admitting else rule


def _power(levels: Mapping[str, Any]) -> str:
    more = f", and {levels['users_left_out']} more" if levels["users_left_out"] else ""
    named = ", ".join(f"{user} {level}" for user, level in levels["users"].items())
    return f"{named}{more}{'; ' if named else ''}others {levels['users_default']}"


@app.command()
def state(
    room: Room,
    type_: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="Only events of this type, with their content.")
    ] = None,
    key: Annotated[str | None, typer.Argument(help='Only the one with this state key; "" is one.')] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show a room's current state, or a part of it."""
    answer = ask(path, "rooms-state", room=room, type=type_, key=key, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _state(console, answer))


def _state(console: Console, answer: Mapping[str, Any]) -> None:
    entries = answer["entries"]
    if any("content" in entry for entry in entries):
        for entry in entries:
            _with_content(console, entry)
    else:
        made = table("type", "key", "event", "sender", "at")
        for entry in entries:
            at = moment(entry["origin_server_ts"])
            add(made, entry["type"], entry["state_key"], short(entry["event_id"]), entry["sender"], at)
        console.print(made)
    if answer["total"] > len(entries):
        console.print(f"{len(entries)} of {answer['total']}: name a type or a key, or use --limit.")


def _with_content(console: Console, entry: Mapping[str, Any]) -> None:
    at = moment(entry["origin_server_ts"])
    console.print(cell(f"{entry['type']} [{entry['state_key']}]", "bold"))
    console.print(cell(f"{entry['event_id']}  {entry['sender']}  {at}"))
    if "content" in entry:
        console.print(lines(json.dumps(entry["content"], indent=2, ensure_ascii=False)))
    else:
        console.print("(too much for one answer: name the key)", markup=False)
    console.print()


@app.command()
def dag(
    room: Room,
    limit: Annotated[int, typer.Option("--limit", help="How many events to show.")] = 50,
    start: Annotated[
        str | None, typer.Option("--from", help="Begin with this event.", show_default=False)
    ] = None,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print it for Graphviz.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Draw the newest part of a room's event graph, newest event first."""
    answer = ask(path, "rooms-dag", room=room, limit=limit, start=start)
    output = Output(as_json=as_json)
    if as_dot:
        source = dot(answer)
        output.show({"dot": source}, lambda console: console.print(source, markup=False, end=""))
    else:
        output.show(answer, lambda console: _dag(console, answer))


def _dag(console: Console, answer: Mapping[str, Any]) -> None:
    for line in graph_lines(answer):
        console.print(lines(f"{line.drawing}  {line.said}", STYLES.get(line.verdict, "")))
    for text in beyond(answer):
        console.print(lines(f"…  {text}", "dim"))


@app.command()
def leave(
    room: Room,
    user: Annotated[str | None, typer.Option("--user", help="Only this user.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Have this server's users leave a room; all of them, unless one is named."""
    output = Output(as_json=as_json)
    look = ask(path, "rooms-leave", room=room, user=user, look=True)
    if not look["users"]:
        output.show(look, lambda console: console.print("None of this server's users is in it."))
        return
    if not yes:
        _confirm(output, look)
    left: list[dict[str, Any]] = []
    after = None
    while True:
        answer = ask(path, "rooms-leave", patience=LEAVING, room=look["room_id"], user=user, after=after)
        left += answer["users"]
        after = answer["next"]
        if after is None:
            break
    output.show({"room_id": look["room_id"], "users": left}, lambda console: _left(console, left))
    if any(one["problem"] is not None for one in left):
        raise typer.Exit(FAILED)


def _confirm(output: Output, look: Mapping[str, Any]) -> None:
    if output.as_json or not sys.stdin.isatty():
        raise LocalError(
            "Leaving a room needs a yes, and there is no terminal to ask on.", "Say it with --yes."
        )
    users = [f"{one['user_id']} ({one['membership']})" for one in look["users"]]
    more = ", and more" if look["next"] is not None else ""
    output.out.print(lines(f"These leave {look['room_id']}: {', '.join(users)}{more}."))
    typer.confirm("Shall they?", abort=True)


def _left(console: Console, users: Sequence[Mapping[str, Any]]) -> None:
    made = table("user", "was", "")
    for one in users:
        add(made, one["user_id"], one["membership"], _outcome(one["problem"]))
    console.print(made)


def _outcome(problem: str | None) -> Text:
    return cell("left", "green") if problem is None else cell(problem, "red")
