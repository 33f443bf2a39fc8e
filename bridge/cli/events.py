"""`palaver events`: events that the running node has stored."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli.output import ConfigFile, Json, Output, ask, cell, facts, lines

app = typer.Typer(help="Show events that the running node has stored.", no_args_is_help=True)

STYLES = {"accepted": "green", "soft_failed": "yellow", "rejected": "red"}


@app.command()
def show(
    event: Annotated[str, typer.Argument(help="The event's id, or the beginning of it.", show_default=False)],
    raw: Annotated[
        bool, typer.Option("--raw", help="The event as stored and sent to other servers, even if it is redacted.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show an event, whether this node accepted it, and the events it references.

    Example: palaver events show '$Rqnc-F-dvnEYJTyH'"""
    answer = ask(path, "events-show", event=event, raw=raw)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, event: Mapping[str, Any]) -> None:
    verdict, refusal = event["verdict"], event["refusal"]
    words = verdict.replace("_", " ") + (f": rule {refusal}" if refusal is not None else "")
    console.print(
        facts(
            [
                ("event", event["event_id"]),
                ("room", f"{event['room_id']}  (version {event['room_version']})"),
                ("verdict", cell(words, STYLES.get(verdict, ""))),
                ("position", _position(event)),
                ("states", _states(event)),
                ("sender's server", event["sender_server"]),
                ("signed by", event["signed_by"]),
                ("size", f"{event['bytes']} bytes"),
                ("prev events", _references(event["prev_events"])),
                ("auth events", _references(event["auth_events"])),
                ("prev event of", [other["event_id"] for other in event["named_by"] if other["as_previous"]]),
                ("auth event of", [other["event_id"] for other in event["named_by"] if other["as_auth"]]),
                ("redacts", event["redacts"]),
                ("redacted by", [_redaction(redaction) for redaction in event["redactions"]]),
            ]
        )
    )
    console.print()
    console.print(lines(json.dumps(event["event"], indent=2, ensure_ascii=False, sort_keys=True)))


def _position(event: Mapping[str, Any]) -> str:
    if event["is_outlier"]:
        position = "outlier: it was received as part of a state"
    else:
        position = "forward extremity" if event["is_extremity"] else "in the graph"
    return f"{position}{'; part of the current state' if event['is_current_state'] else ''}"


def _states(event: Mapping[str, Any]) -> str | None:
    if event["is_outlier"]:
        return None
    return f"group {event['state_before']} before the event, {event['state_after']} after it"


def _references(references: Sequence[Mapping[str, Any]]) -> list[str]:
    """The event ids, each with its verdict unless it is accepted."""
    shown = []
    for event in references:
        verdict = "missing" if event["verdict"] is None else event["verdict"].replace("_", " ")
        shown.append(event["event_id"] if verdict == "accepted" else f"{event['event_id']} ({verdict})")
    return shown


def _redaction(event: Mapping[str, Any]) -> str:
    return f"{event['event_id']} by {event['sender']} ({event['verdict'].replace('_', ' ')})"
