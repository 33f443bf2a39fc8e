"""`palaver agents`: the agents that the running node knows, and those of its own."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.agents.attached.openapi import document
from bridge.agents.local.command import PRESETS, Word
from bridge.cli.output import ConfigFile, Json, Output, add, ask, cell, counted, facts, lines, table
from bridge.clock import now_ms
from bridge.config.files import new_secret_file
from bridge.text.times import ago, moment
from bridge.text.yaml_text import yaml_text

app = typer.Typer(help="Look at agents, and look after those of this node.", no_args_is_help=True)
token = typer.Typer(
    help="The tokens with which agents attach themselves that the node does not run.", no_args_is_help=True
)
app.add_typer(token, name="token")

Agent = Annotated[str, typer.Argument(help="The agent's id, without its node.", show_default=False)]


@token.command("create")
def create(
    agent: Agent,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", help="Write the token there, readable to you alone, and do not print it."
        ),
    ] = None,
    days: Annotated[int | None, typer.Option("--days", help="For how many days it is good.")] = None,
    note: Annotated[str | None, typer.Option("--note", help="What it is for.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a token for an agent. It is shown now, and never again."""
    with contextlib.ExitStack() as stack:
        write = None if file is None else stack.enter_context(new_secret_file(file))
        answer = ask(path, "agents-token-create", agent=agent, days=days, note=note)
        if write is not None:
            write(answer.pop("token"))
    Output(as_json=as_json).show(answer, lambda console: _created(console, answer, file, path))


def _created(console: Console, answer: Mapping[str, Any], file: Path | None, config: Path | None) -> None:
    if file is None:
        console.print(answer["token"], markup=False)
        return
    console.print(lines(f"The token {answer['token_id']} of {answer['agent_id']} is in {file}."))
    words = ["palaver", "agent", "run", "--id", answer["agent_id"], "--token-file", str(file)]
    words += [] if config is None else ["-c", str(config)]
    console.print(lines(f"  {shlex.join(words)} -- COMMAND…"))


@token.command("list")
def list_(
    agent: Annotated[
        str | None, typer.Argument(help="Of one agent; else of all.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List tokens by their ids, which are no secrets: whose they are, and when they were used."""
    answer = ask(path, "agents-token-list", agent=agent)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tokens"]:
        console.print("There are no tokens.")
        return
    made = table("agent", "token", "state", "note", "made", "good until", "used")
    for one in answer["tokens"]:
        made_at = moment(one["created_at"])
        until = moment(one["expires_at"]) if one["expires_at"] else "ever"
        used = ago(one["last_used_at"], now_ms()) if one["last_used_at"] else "never"
        add(made, one["agent_id"], one["token_id"], one["state"], one["note"], made_at, until, used)
    console.print(made)


@token.command("revoke")
def revoke(
    agent: Agent,
    token_id: Annotated[str | None, typer.Argument(help="The token's id.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All of the agent's tokens.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Make a token worthless. Whoever is attached with it has to leave."""
    answer = ask(path, "agents-token-revoke", agent=agent, token_id=token_id, all=every)
    Output(as_json=as_json).show(
        answer, lambda console: console.print(lines(f"Revoked: {', '.join(answer['revoked'])}."))
    )


@app.command("list")
def list_agents(
    search: Annotated[
        str | None, typer.Argument(help="Words that are in what is known of them.", show_default=False)
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only those of this node.")] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="idle, busy, running, error, shutdown, or gone.")
    ] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option("--capability", help="Only those that can do this; may be given again; * and ? fit."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also those that are gone.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the agents that are known here, on whichever node they live."""
    answer = ask(
        path,
        "agents-list",
        search=search,
        node=node,
        status=status,
        capabilities=capability or None,
        all=every or None,
        limit=limit,
    )
    Output(as_json=as_json).show(answer, lambda console: _agents(console, answer))


STATUSES = {"busy": "yellow", "error": "red", "gone": "dim", "shutdown": "dim"}


def _agents(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["agents"]:
        console.print("There are no such agents.")
        return
    made = table("address", "state", "with", "runtime", "can do", "heard")
    for one in answer["agents"]:
        with_ = one["current_task"] or one["gone_reason"]
        heard = ago(one["last_heard"], now_ms())
        add(made, one["address"], _status(one), with_, one["runtime"], one["capabilities"], heard)
    console.print(made)
    if answer["total"] > len(answer["agents"]):
        console.print(f"{len(answer['agents'])} of {answer['total']}: use words, --node or --limit.")


def _status(one: Mapping[str, Any]) -> Text:
    return cell(one["status"], STATUSES.get(one["status"], "green"))


Address = Annotated[
    str,
    typer.Argument(
        metavar="ADDRESS", help="agent@node, or the id alone where that is enough.", show_default=False
    ),
]


@app.command("show")
def show(agent: Address, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show all that is known of an agent, and what waits for it."""
    answer = ask(path, "agents-show", agent=agent)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, one: Mapping[str, Any]) -> None:
    node, now = one["node"] or {}, now_ms()
    gone = f"{moment(one['gone_at'])}: {one['gone_reason']}" if one["gone_at"] else None
    said = [
        ("address", one["address"]),
        ("state", _status(one)),
        ("with", one["current_task"]),
        ("gone since", gone),
        ("can do", one["capabilities"]),
        ("runtime", one["runtime"]),
        ("attached by", "the configuration" if one["configured"] else one["connector"]),
        ("namespaces", one["namespaces"]),
        ("registered", moment(one["registered_at"]) if one["registered_at"] else None),
        ("last heard", ago(one["last_heard"], now)),
        ("queue", _queue(one["queue"])),
        ("tokens", one["tokens"] or None),
        ("node", f"{one['node_id']}{' (this node)' if one['is_local'] else ''}"),
        ("reached at", node.get("url") or (None if one["is_local"] else "by its name")),
        ("trusted", None if one["is_local"] else node.get("trusted")),
        ("silent since", moment(node["silent_since"]) if node.get("silent_since") else None),
        ("route", one["why"]),
    ]
    console.print(facts(said))
    if one["tasks"]:
        made = table("task", "state", "from", "at")
        for task in one["tasks"]:
            add(made, task["task"], task["state"], task["from"], moment(task["received_at"]))
        console.print(made)
    if one["more_tasks"]:
        console.print("There are more: `palaver task list --agent ADDRESS --state live`.", markup=False)


def _queue(queue: Mapping[str, Any] | None) -> str | None:
    if queue is None:
        return None
    most = "any number" if queue["at_once"] is None else queue["at_once"]
    waiting = (
        f"{queue['waiting']} of {queue['most_waiting']} wait" if queue["most_waiting"] else "none may wait"
    )
    return f"works on {queue['active']} of {most} at once; {waiting}"


@app.command("remove")
def remove(
    agent: Address,
    reason: Annotated[str | None, typer.Option("--reason", help="What others are told.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Take an agent out of the routing table: what it was given to do fails, until it registers anew."""
    answer = ask(path, "agents-remove", agent=agent, reason=reason)
    Output(as_json=as_json).show(answer, lambda console: _removed(console, answer))


def _removed(console: Console, answer: Mapping[str, Any]) -> None:
    address, tokens = answer["address"], answer["tokens"]
    if not answer["is_local"]:
        console.print(lines(f"{address} is forgotten here, until its node speaks of it again."))
        return
    console.print(lines(f"{address} is removed: {answer['reason']}."))
    if tokens:
        agent_id = address.rpartition("@")[0]
        words = shlex.join(["palaver", "agents", "token", "revoke", agent_id, "--all"])
        console.print(lines(f"It has {counted(len(tokens), 'token')}, and may come back with one; {words}"))


@app.command("presets")
def presets(as_json: Json = False) -> None:
    """Show the command lines that are known. Write `{model}` and the like into your own in the same way."""
    known = {name: " ".join(map(_shown, words)) for name, words in PRESETS.items()}
    Output(as_json=as_json).show({"presets": known}, lambda console: console.print(facts(known)))


def _shown(word: Word) -> str:
    return word if isinstance(word, str) else f"[{' '.join(word)}]"


@app.command("openapi")
def openapi(as_json: Json = False) -> None:
    """Print the description of the interface by which programs attach themselves, as YAML."""
    if as_json:
        Output(as_json=True).show(document())
    else:
        sys.stdout.write(yaml_text(document()))
