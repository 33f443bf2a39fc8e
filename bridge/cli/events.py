"""`palaver events`: the events that the running node has."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.cli.output import ConfigFile, Json, Output, ask, cell, facts, lines

app = typer.Typer(help="Look at the events that the running node has.", no_args_is_help=True)

STYLES = {"accepted": "green", "soft_failed": "yellow", "rejected": "red"}


@app.command()
def show(
    event: Annotated[str, typer.Argument(help="Its id, or the beginning of it.", show_default=False)],
    raw: Annotated[
        bool, typer.Option("--raw", help="As it is kept and sent to servers, also when it was redacted.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show an event, what this node made of it, and what stands around it."""
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
                ("place", _place(event)),
                ("states", _states(event)),
                ("sender's server", event["sender_server"]),
                ("signed by", event["signed_by"]),
                ("size", f"{event['bytes']} bytes"),
                ("follows", _references(event["prev_events"])),
                ("rests on", _references(event["auth_events"])),
                ("followed by", [one["event_id"] for one in event["named_by"] if one["as_previous"]]),
                ("on it rest", [one["event_id"] for one in event["named_by"] if one["as_auth"]]),
                ("redacts", event["redacts"]),
                ("redacted by", [_redaction(one) for one in event["redactions"]]),
            ]
        )
    )
    console.print()
    console.print(lines(json.dumps(event["event"], indent=2, ensure_ascii=False, sort_keys=True)))


def _place(event: Mapping[str, Any]) -> str:
    if event["is_outlier"]:
        where = "unknown: it came as part of a state"
    else:
        where = "an end of the graph" if event["is_extremity"] else "in the graph"
    return f"{where}{'; part of the current state' if event['is_current_state'] else ''}"


def _states(event: Mapping[str, Any]) -> str | None:
    if event["is_outlier"]:
        return None
    return f"group {event['state_before']} before it, {event['state_after']} after it"


def _references(references: Sequence[Mapping[str, Any]]) -> list[str]:
    """With the verdict on each; what is accepted needs no word."""
    said = []
    for one in references:
        verdict = "not here" if one["verdict"] is None else one["verdict"].replace("_", " ")
        said.append(one["event_id"] if verdict == "accepted" else f"{one['event_id']} ({verdict})")
    return said


def _redaction(one: Mapping[str, Any]) -> str:
    return f"{one['event_id']} of {one['sender']} ({one['verdict'].replace('_', ' ')})"
