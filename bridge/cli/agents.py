"""`palaver agents`: the agents that the running node knows, and the tokens of agents that attach to it."""

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

app = typer.Typer(help="Show agents, and manage the agents of this node.", no_args_is_help=True)
token = typer.Typer(help="Manage the tokens of agents that attach to this node.", no_args_is_help=True)
app.add_typer(token, name="token")

Agent = Annotated[str, typer.Argument(help="The agent's id, without the node.", show_default=False)]


@token.command("create")
def create(
    agent: Agent,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Write the token to a new file that only you can read, and do not print it."),
    ] = None,
    days: Annotated[
        int | None, typer.Option("--days", help="Days until the token expires. Default: it does not expire.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="A note about the token's purpose.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Create a token for an agent. The token is shown only once.

    Example: palaver agents token create worker-1 --file worker-1.token"""
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
        str | None, typer.Argument(help="Only tokens of the agent with this id. Default: all.", show_default=False)
    ] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List tokens with their agent, their state and when they were last used. Token ids are not secret.

    Example: palaver agents token list worker-1"""
    answer = ask(path, "agents-token-list", agent=agent)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tokens"]:
        console.print("There are no tokens.")
        return
    made = table("agent", "token", "state", "note", "created", "expires", "used")
    for row in answer["tokens"]:
        created = moment(row["created_at"])
        expires = moment(row["expires_at"]) if row["expires_at"] else "never"
        used = ago(row["last_used_at"], now_ms()) if row["last_used_at"] else "never"
        add(made, row["agent_id"], row["token_id"], row["state"], row["note"], created, expires, used)
    console.print(made)


@token.command("revoke")
def revoke(
    agent: Agent,
    token_id: Annotated[str | None, typer.Argument(help="The token's id.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All of the agent's tokens.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Revoke a token. An agent that is attached with it is disconnected.

    Example: palaver agents token revoke worker-1 --all"""
    answer = ask(path, "agents-token-revoke", agent=agent, token_id=token_id, all=every)
    Output(as_json=as_json).show(
        answer, lambda console: console.print(lines(f"Revoked: {', '.join(answer['revoked'])}."))
    )


@app.command("list")
def list_agents(
    search: Annotated[
        str | None, typer.Argument(help="Words to search for in the agents' details.", show_default=False)
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only agents of this node.")] = None,
    status: Annotated[
        str | None,
        typer.Option(
            "--status", help="Only agents in this state: idle, busy, running, error, shutdown or gone (offline)."
        ),
    ] = None,
    capability: Annotated[
        list[str] | None,
        typer.Option("--capability", help="Only agents with this capability. * and ? are wildcards. Repeatable."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Also agents that are offline.")] = False,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of agents.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the agents of this node and of other nodes that this node knows.

    Example: palaver agents list review --node kitchen.local"""
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
        console.print("No agents found.")
        return
    made = table("address", "state", "task", "runtime", "capabilities", "last seen")
    for agent in answer["agents"]:
        task = agent["current_task"] or agent["gone_reason"]
        seen = ago(agent["last_heard"], now_ms())
        add(made, agent["address"], _status(agent), task, agent["runtime"], agent["capabilities"], seen)
    console.print(made)
    if answer["total"] > len(answer["agents"]):
        console.print(
            f"{len(answer['agents'])} of {answer['total']} agents shown: use search words, --node or --limit."
        )


def _status(agent: Mapping[str, Any]) -> Text:
    return cell(agent["status"], STATUSES.get(agent["status"], "green"))


Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="agent@node, or only the id if it is unique.", show_default=False)
]


@app.command("show")
def show(agent: Address, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show all details of an agent, and its unfinished tasks.

    Example: palaver agents show worker-1@kitchen.local"""
    answer = ask(path, "agents-show", agent=agent)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, agent: Mapping[str, Any]) -> None:
    node, now = agent["node"] or {}, now_ms()
    gone = f"{moment(agent['gone_at'])}: {agent['gone_reason']}" if agent["gone_at"] else None
    items = [
        ("address", agent["address"]),
        ("state", _status(agent)),
        ("problem", _problem(agent["problem"])),
        ("task", agent["current_task"]),
        ("offline since", gone),
        ("capabilities", agent["capabilities"]),
        ("runtime", agent["runtime"]),
        ("attached by", "the configuration" if agent["configured"] else agent["connector"]),
        ("namespaces", agent["namespaces"]),
        ("registered", moment(agent["registered_at"]) if agent["registered_at"] else None),
        ("last seen", ago(agent["last_heard"], now)),
        ("queue", _queue(agent["queue"])),
        ("tokens", agent["tokens"] or None),
        ("node", f"{agent['node_id']}{' (this node)' if agent['is_local'] else ''}"),
        ("URL", node.get("url") or (None if agent["is_local"] else "discovered by name")),
        ("trusted", None if agent["is_local"] else node.get("trusted")),
        ("silent since", moment(node["silent_since"]) if node.get("silent_since") else None),
        ("route", agent["why"]),
    ]
    console.print(facts(items))
    if agent["tasks"]:
        made = table("task", "state", "from", "at")
        for task in agent["tasks"]:
            add(made, task["task"], task["state"], task["from"], moment(task["received_at"]))
        console.print(made)
    if agent["more_tasks"]:
        console.print("There are more tasks: `palaver task list --agent ADDRESS --state live`.", markup=False)


def _problem(problem: Mapping[str, Any] | None) -> str | None:
    if problem is None:
        return None
    since = "" if problem["since"] is None else f"since {moment(problem['since'])}: "
    return f"{since}{problem['sentence']}"


def _queue(queue: Mapping[str, Any] | None) -> str | None:
    if queue is None:
        return None
    limit = "" if queue["at_once"] is None else f" of {queue['at_once']}"
    waiting = f"{queue['waiting']} of {queue['most_waiting']} queued" if queue["most_waiting"] else "no queue"
    return f"{queue['active']}{limit} running; {waiting}"


@app.command("remove")
def remove(
    agent: Address,
    reason: Annotated[str | None, typer.Option("--reason", help="The reason to announce to other nodes.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Remove an agent from the routing table. Its tasks fail. It can register again.

    Example: palaver agents remove worker-1 --reason 'replaced by worker-2'"""
    answer = ask(path, "agents-remove", agent=agent, reason=reason)
    Output(as_json=as_json).show(answer, lambda console: _removed(console, answer))


def _removed(console: Console, answer: Mapping[str, Any]) -> None:
    address, tokens = answer["address"], answer["tokens"]
    if not answer["is_local"]:
        console.print(lines(f"{address} is removed from this node, until its node announces it again."))
        return
    console.print(lines(f"{address} is removed: {answer['reason']}."))
    if tokens:
        agent_id = address.rpartition("@")[0]
        words = shlex.join(["palaver", "agents", "token", "revoke", agent_id, "--all"])
        console.print(lines(f"It can attach again with {counted(len(tokens), 'token')}. To revoke: {words}"))


@app.command("presets")
def presets(as_json: Json = False) -> None:
    """Show the default commands of runtimes. Your own commands can use the same placeholders, like {model}.

    Example: palaver agents presets"""
    commands = {name: " ".join(map(_shown, words)) for name, words in PRESETS.items()}
    Output(as_json=as_json).show({"presets": commands}, lambda console: console.print(facts(commands)))


def _shown(word: Word) -> str:
    return word if isinstance(word, str) else f"[{' '.join(word)}]"


@app.command("openapi")
def openapi(as_json: Json = False) -> None:
    """Print the OpenAPI description of the API for agents that attach to a node, as YAML.

    Example: palaver agents openapi > palaver-agents.yaml"""
    if as_json:
        Output(as_json=True).show(document())
    else:
        sys.stdout.write(yaml_text(document()))
