"""`palaver queue`: events and EDUs that are queued for other servers."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import ConfigFile, Json, Output, add, ask, cell, counted, facts, table
from bridge.clock import now_ms
from bridge.text.event_graph import short
from bridge.text.times import ago, duration, moment


def queue(
    peer: Annotated[str | None, typer.Argument(help="A server whose queue to show in detail.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of entries of each kind.")] = 10,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the queue of each server: what is queued, since when, and when the next attempt is.

    Example: palaver queue kitchen.local"""
    answer = ask(path, "queue", server=peer, limit=limit)
    show = _all if peer is None else _one
    Output(as_json=as_json).show(answer, lambda console: show(console, answer))


def _all(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["servers"]:
        console.print("All queues are empty.")
        return
    made = table("server", "state", "events", "EDUs", "lag", "next attempt", "last failure")
    for one in answer["servers"]:
        lag = duration(one["lag_ms"])
        add(made, one["server"], state(one), one["pdus"], one["edus"], lag, next_attempt(one), one["failure"])
    console.print(made)
    if answer["total"] > len(answer["servers"]):
        console.print(f"{len(answer['servers'])} of {answer['total']} servers, the longest lag first.")


def _one(console: Console, one: Mapping[str, Any]) -> None:
    transaction = one["transaction"]
    console.print(
        facts(
            [
                ("server", one["server"]),
                ("state", state(one)),
                ("queued", f"{counted(one['pdus'], 'event')}, {counted(one['edus'], 'EDU')}"),
                ("oldest", f"{moment(one['oldest_at'])}, {duration(one['lag_ms'])} ago" if one["oldest_at"] else None),
                ("next attempt", next_attempt(one)),
                ("failing since", moment(one["failing_since"]) if one["failing_since"] else None),
                ("failures in a row", one["failures"] or None),
                ("last failure", f"{one['failure']} ({ago(one['failed_at'], now_ms())})" if one["failure"] else None),
                ("last reached", ago(one["reached_at"], now_ms())),
                ("last request from it", ago(one["heard_at"], now_ms())),
                ("in flight", _transaction(transaction) if transaction else None),
            ]
        )
    )
    made = table("queued", "type", "room", "since")
    for pdu in one["first_pdus"]:
        what = f"{pdu['type'] or 'a deleted event'}{' (in flight)' if pdu['in_flight'] else ''}"
        add(made, short(pdu["event_id"]), what, short(pdu["room_id"]), moment(pdu["queued_at"]))
    for edu in one["first_edus"]:
        add(made, "EDU", f"{edu['type']}{' (in flight)' if edu['in_flight'] else ''}", "", moment(edu["queued_at"]))
    if one["first_pdus"] or one["first_edus"]:
        console.print(made)


def _transaction(transaction: Mapping[str, Any]) -> str:
    count = f"{counted(transaction['pdus'], 'event')}, {counted(transaction['edus'], 'EDU')}"
    return f"{transaction['transaction_id']}: {count}, first sent {ago(transaction['first_sent_at'], now_ms())}"


STATES = {
    "idle": ("idle", ""),
    "waiting": ("waiting", "yellow"),
    "paced": ("paced", "yellow"),
    "sending": ("sending", "green"),
    "backing_off": ("backing off", "red"),
    "surveying": ("counting", "yellow"),
}


def state(one: Mapping[str, Any]) -> Text:
    """The state of the server's queue."""
    words, style = STATES.get(one["state"], (one["state"], ""))
    if one["state"] == "backing_off" and one["failing_since"] is None and one["failure"] is None:
        # No attempt has been made since the start of the node.
        words, style = "waiting", "yellow"
    return cell(f"{words}{', catching up' if one['catching_up'] else ''}", style)


def next_attempt(one: Mapping[str, Any]) -> str | None:
    """The time of the next attempt, or None if there is none."""
    at = one["retry_at"]
    if not at:
        return None
    return ago(at, now_ms()) if at > now_ms() else "now"
