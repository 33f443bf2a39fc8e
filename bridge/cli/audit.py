"""`palaver audit`: what this node and others did to each other."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from bridge.cli.output import ConfigFile, Json, Output, add, ask, cell, table
from bridge.connectors.registry import CONNECTORS
from bridge.text.event_graph import short
from bridge.text.times import moment
from federation.peers.audit import EVERYBODY
from storage.errors import LocalError

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SINCE: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_DIRECTIONS: Final = {"in": "asked us", "out": "was asked"}
_TOLD: Final = {"in": "told us", "out": "was told"}
_NOTICES: Final = tuple(beginning for one in CONNECTORS for beginning in one.notices)


def audit(
    peer: Annotated[str | None, typer.Option("--peer", help="Only with this server.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only what is of this user.")] = None,
    room: Annotated[str | None, typer.Option("--room", help="Only what is of the room with this id.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="How far back, such as 90s, 15m, 2h or 7d.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show what servers asked of this node and it of them, and what nodes told each other of agents and
    tasks; newest first, and how it ended."""
    seconds = None if since is None else _seconds(since)
    answer = ask(path, "audit", peer=peer, user=user, room=room, seconds=seconds, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _seconds(since: str) -> int:
    match = _SINCE.fullmatch(since)
    if match is None:
        raise LocalError(f"{since} is not a span of time.", "Write a number and its unit: 90s, 15m, 2h, 7d.")
    return int(match[1]) * _UNITS[match[2]]


def _show(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["acts"]:
        console.print("Nothing is written down.")
        return
    made = table("at", "server", "", "what", "ended", "user", "room", "about")
    for act in answer["acts"]:
        ended = cell(_ended(act), "" if act["outcome"] == "done" else "yellow")
        directions = _TOLD if act["act"].startswith(_NOTICES) else _DIRECTIONS
        direction = directions.get(act["direction"], act["direction"])
        about = (act["user_id"] or "", short(act["room_id"] or ""), _subject(act["subject"] or ""))
        add(made, moment(act["at"]), _peer(act["peer"]), direction, act["act"], ended, *about)
    console.print(made)
    if answer["more"]:
        console.print("There is more: use --since, --peer, --user, --room or --limit.", markup=False)


def _peer(peer: str | None) -> str:
    if peer == EVERYBODY:
        return "everybody"
    return peer or "somebody"


def _subject(subject: str) -> str:
    """The beginning of an event's id finds it; of what else there is only the whole does."""
    return short(subject) if subject.startswith("$") else subject


def _ended(act: Mapping[str, Any]) -> str:
    words = str(act["outcome"]).replace("_", " ")
    return f"{words}: {act['detail']}" if act["detail"] else words
