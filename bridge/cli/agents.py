"""`palaver agents`: the agents of this node."""

import contextlib
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from bridge.agent_api.openapi import document
from bridge.agent_command import PRESETS, Word
from bridge.cli.asking import ask
from bridge.cli.cells import add, facts, lines, table
from bridge.cli.options import ConfigFile, Json
from bridge.cli.output import Output
from bridge.clock import now_ms
from bridge.service.secret_file import new_secret_file
from bridge.time_text import ago, moment
from bridge.yaml_text import yaml_text

app = typer.Typer(help="Look after the agents of this node.", no_args_is_help=True)
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
    Output(as_json=as_json).show(answer, lambda console: _created(console, answer, file))


def _created(console: Console, answer: Mapping[str, Any], file: Path | None) -> None:
    if file is None:
        console.print(answer["token"], markup=False)
        return
    console.print(lines(f"The token {answer['token_id']} of {answer['agent_id']} is in {file}."))
    words = ["palaver", "agent", "run", "--id", answer["agent_id"], "--token-file", str(file), "--"]
    console.print(lines(f"  {shlex.join(words)} COMMAND…"))


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
