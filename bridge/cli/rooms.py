"""`palaver rooms`: the rooms that the running node has joined."""

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

app = typer.Typer(help="Show or leave the rooms that the running node has joined.", no_args_is_help=True)

Room = Annotated[
    str, typer.Argument(help="The room's id, the beginning of its id, an alias, or its name.", show_default=False)
]
# Seconds for a batch of users. Rejecting an invite sends requests to servers that may not answer.
LEAVE_TIMEOUT = 600.0
STYLES = {"accepted": "", "soft_failed": "yellow", "rejected": "red"}


@app.command("list")
def list_(
    search: Annotated[
        str | None, typer.Option("--search", help="Only rooms with this text in their id, name, alias or topic.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of rooms.")] = 50,
    after: Annotated[
        str | None, typer.Option("--after", help="Continue after the room with this id.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the rooms by id, with name, version and numbers of members.

    Example: palaver rooms list --search agents"""
    answer = ask(path, "rooms-list", search=search, limit=limit, after=after)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    made = table("room", "name", "version", "members", "local", "servers", "extremities")
    for room in answer["rooms"]:
        name = room["name"] or room["canonical_alias"]
        counts = (room["members"], room["local_members"], room["servers"], room["extremities"])
        add(made, room["room_id"], name, room["room_version"], *counts)
    if answer["rooms"]:
        console.print(made)
    else:
        console.print("No rooms found.")
    if answer["next"] is not None:
        console.print(lines(f"There are more rooms: continue with --after '{answer['next']}'"))


@app.command()
def show(room: Room, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show a room: its settings, members, power levels and latest events.

    Example: palaver rooms show '#agents-default:kitchen.local'"""
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
                ("creators", room["creators"]),
                ("created", moment(room["created_at"])),
                ("join rule", _join_rule(room)),
                ("history visibility", room["history_visibility"]),
                ("encryption", room["encryption"]),
                ("federates", room["federates"]),
                ("server ACL", room["has_server_acl"]),
                ("replaced by", room["replaced_by"]),
                ("members", room["memberships"]),
                ("members by server", room["by_server"]),
                ("local users", room["local_users"]),
                ("power levels", _power_levels(levels)),
                ("level to send", levels["events_default"]),
                ("level to change state", levels["state_default"]),
                ("level to invite", levels["invite"]),
                ("level to kick, ban, redact", f"{levels['kick']}, {levels['ban']}, {levels['redact']}"),
                ("forward extremities", room["extremities"]),
            ]
        )
    )
    made = table("latest events", "at", "type", "state key", "sender")
    for event in room["latest_events"]:
        at = moment(event["origin_server_ts"])
        add(made, short(event["event_id"]), at, event["type"], event["state_key"], event["sender"])
    console.print(made)


def _join_rule(room: Mapping[str, Any]) -> str | None:
    rule: str | None = room["join_rule"]
    allowed = room["allowed_room_ids"]
    return f"{rule}: members of {', '.join(allowed)}" if allowed else rule


def _power_levels(levels: Mapping[str, Any]) -> str:
    more = f", and {levels['users_left_out']} more" if levels["users_left_out"] else ""
    named = ", ".join(f"{user} {level}" for user, level in levels["users"].items())
    return f"{named}{more}{'; ' if named else ''}others {levels['users_default']}"


@app.command()
def state(
    room: Room,
    type_: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="Only events of this type, with their content.")
    ] = None,
    key: Annotated[str | None, typer.Argument(help='Only the event with this state key, which may be "".')] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of events.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show a room's current state, or a part of it.

    Example: palaver rooms state '#agents-default:kitchen.local' m.room.power_levels"""
    answer = ask(path, "rooms-state", room=room, type=type_, key=key, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _state(console, answer))


def _state(console: Console, answer: Mapping[str, Any]) -> None:
    entries = answer["entries"]
    if any("content" in entry for entry in entries):
        for entry in entries:
            _with_content(console, entry)
    else:
        made = table("type", "state key", "event", "sender", "at")
        for entry in entries:
            at = moment(entry["origin_server_ts"])
            add(made, entry["type"], entry["state_key"], short(entry["event_id"]), entry["sender"], at)
        console.print(made)
    if answer["total"] > len(entries):
        console.print(f"{len(entries)} of {answer['total']} events shown: name a type or a state key, or use --limit.")


def _with_content(console: Console, entry: Mapping[str, Any]) -> None:
    at = moment(entry["origin_server_ts"])
    console.print(cell(f"{entry['type']} [{entry['state_key']}]", "bold"))
    console.print(cell(f"{entry['event_id']}  {entry['sender']}  {at}"))
    if "content" in entry:
        console.print(lines(json.dumps(entry["content"], indent=2, ensure_ascii=False)))
    else:
        console.print("(too large for one answer: name the state key)", markup=False)
    console.print()


@app.command()
def dag(
    room: Room,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of events.")] = 50,
    start: Annotated[str | None, typer.Option("--from", help="Begin with this event.", show_default=False)] = None,
    as_dot: Annotated[bool, typer.Option("--dot", help="Print the graph for Graphviz.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Draw the newest part of a room's event graph, the newest event first.

    Example: palaver rooms dag '#agents-default:kitchen.local' --dot | dot -Tsvg > room.svg"""
    answer = ask(path, "rooms-dag", room=room, limit=limit, start=start)
    output = Output(as_json=as_json)
    if as_dot:
        source = dot(answer)
        output.show({"dot": source}, lambda console: console.print(source, markup=False, end=""))
    else:
        output.show(answer, lambda console: _dag(console, answer))


def _dag(console: Console, answer: Mapping[str, Any]) -> None:
    for line in graph_lines(answer):
        console.print(lines(f"{line.drawing}  {line.text}", STYLES.get(line.verdict, "")))
    for text in beyond(answer):
        console.print(lines(f"…  {text}", "dim"))


@app.command()
def leave(
    room: Room,
    user: Annotated[str | None, typer.Option("--user", help="Only this user.", show_default=False)] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make this server's users leave a room: all of them, or one.

    Example: palaver rooms leave '!abc:example.org' --user @worker-1:kitchen.local"""
    output = Output(as_json=as_json)
    preview = ask(path, "rooms-leave", room=room, user=user, look=True)
    if not preview["users"]:
        output.show(preview, lambda console: console.print("No user of this server is in the room."))
        return
    if not yes:
        _confirm(output, preview)
    left: list[dict[str, Any]] = []
    after = None
    while True:
        room_id = preview["room_id"]
        answer = ask(path, "rooms-leave", timeout_secs=LEAVE_TIMEOUT, room=room_id, user=user, after=after)
        left += answer["users"]
        after = answer["next"]
        if after is None:
            break
    output.show({"room_id": preview["room_id"], "users": left}, lambda console: _left(console, left))
    if any(user["problem"] is not None for user in left):
        raise typer.Exit(FAILED)


def _confirm(output: Output, preview: Mapping[str, Any]) -> None:
    if output.as_json or not sys.stdin.isatty():
        raise LocalError(
            "Leaving a room needs a confirmation, and there is no terminal to ask on.", "Confirm with --yes."
        )
    users = [f"{user['user_id']} ({user['membership']})" for user in preview["users"]]
    more = ", and more" if preview["next"] is not None else ""
    output.out.print(lines(f"These users will leave {preview['room_id']}: {', '.join(users)}{more}."))
    typer.confirm("Continue?", abort=True)


def _left(console: Console, users: Sequence[Mapping[str, Any]]) -> None:
    made = table("user", "previous membership", "result")
    for user in users:
        add(made, user["user_id"], user["membership"], _outcome(user["problem"]))
    console.print(made)


def _outcome(problem: str | None) -> Text:
    return cell("left", "green") if problem is None else cell(problem, "red")
