"""`palaver audit`: the log of requests between this node and others."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bridge.cli.output import ConfigFile, Json, Output, add, ask, cell, table
from bridge.connectors.registry import CONNECTORS
from bridge.text.event_graph import short
from bridge.text.times import moment
from federation.peers.audit import ALL_PEERS
from storage.errors import LocalError

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SINCE: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_REQUESTS: Final = {"in": "requested", "out": "was requested"}
_NOTIFICATIONS: Final = {"in": "notified us", "out": "was notified"}
_NOTICES: Final = tuple(prefix for connector in CONNECTORS for prefix in connector.notices)


def audit(
    peer: Annotated[str | None, typer.Option("--peer", help="Only entries about this server.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only entries about this user id.")] = None,
    room: Annotated[str | None, typer.Option("--room", help="Only entries about this room id.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only entries of the last 90s, 15m, 2h or 7d.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of entries.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show requests between this node and other servers, and messages about agents and tasks, with their
    outcome. The newest entry is first.

    Example: palaver audit --peer kitchen.local --since 2h"""
    seconds = None if since is None else _seconds(since)
    answer = ask(path, "audit", peer=peer, user=user, room=room, seconds=seconds, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _seconds(since: str) -> int:
    match = _SINCE.fullmatch(since)
    if match is None:
        raise LocalError(f"{since} is not a duration.", "Write a number with a unit: 90s, 15m, 2h, 7d.")
    return int(match[1]) * _UNITS[match[2]]


def _show(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["acts"]:
        console.print("There are no entries.")
        return
    made = table("at", "server", "", "action", "outcome", "user", "room", "about")
    for act in answer["acts"]:
        outcome = cell(_outcome(act), "" if act["outcome"] == "done" else "yellow")
        directions = _NOTIFICATIONS if act["act"].startswith(_NOTICES) else _REQUESTS
        direction = directions.get(act["direction"], act["direction"])
        about = (act["user_id"] or "", short(act["room_id"] or ""), _subject(act["subject"] or ""))
        add(made, moment(act["at"]), _peer(act["peer"]), direction, act["act"], outcome, *about)
    console.print(made)
    if answer["more"]:
        console.print("There are more entries: use --since, --peer, --user, --room or --limit.", markup=False)


def _peer(peer: str | None) -> str:
    if peer == ALL_PEERS:
        return "all servers"
    return peer or "unknown"


def _subject(subject: str) -> str:
    """Shorten an event id: commands find an event by the beginning of its id. Other ids stay complete."""
    return short(subject) if subject.startswith("$") else subject


def _outcome(act: Mapping[str, Any]) -> str:
    words = str(act["outcome"]).replace("_", " ")
    return f"{words}: {act['detail']}" if act["detail"] else words
