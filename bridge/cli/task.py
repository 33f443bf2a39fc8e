"""`palaver task`: work for agents."""

import asyncio
import secrets
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.asking import ask
from bridge.cli.cells import add, cell, facts, lines, table
from bridge.cli.options import ConfigFile, Json, loaded
from bridge.cli.output import FAILED, Output
from bridge.cli.task_waiting import Waiting, wait_for
from bridge.clock import now_ms
from bridge.task_exit import CANCELLED, CODES
from bridge.time_text import ago, duration, moment
from storage.errors import LocalError

app = typer.Typer(help="Give agents work, and see what becomes of it.", no_args_is_help=True)

MOST_READ = 1_048_576
"""Bytes from standard input. The node takes less, and says so itself."""
STYLES = {"done": "green", "failed": "red", "timed_out": "red", "cancelled": "yellow", "running": "cyan"}
_CODES = ", ".join(f"{number} {code.value}" for code, number in CODES.items())

Task = Annotated[
    str,
    typer.Argument(metavar="TASK", help="Its key, or the id of its request or its own.", show_default=False),
]


@app.command(
    "send",
    epilog=f"Ends with 0 for success, with the code of the tool that failed, or with one of: {_CODES}, "
    f"{CANCELLED} cancelled. 130 is Ctrl-C, and 1 everything else.",
)
def send(
    address: Annotated[
        str, typer.Argument(help="agent@node, or an id alone where that is enough.", show_default=False)
    ],
    prompt: Annotated[
        str, typer.Argument(help="What is to be done; - reads it from standard input.", show_default=False)
    ],
    context: Annotated[str | None, typer.Option("--context", help="What was said before.")] = None,
    system_prompt: Annotated[str | None, typer.Option("--system-prompt", help="How to go about it.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="Which model is to do it.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", help="NAME=VALUE; may be given again.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.001, help="Seconds until it is to be done.")
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option("--id", help="The request's id; asked for again under it, it is the same task."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="USER",
            help="In whose name, as @alice:example.org; with that person's permissions.",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", "--detach", help="Print the task's key, and do not wait.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Give an agent a task, and wait for the result: the agent's output on standard output, what it reports
    on the way on standard error. Ctrl-C cancels the task."""
    name = request_id or f"operator-{secrets.token_hex(8)}"
    given = {
        "to": address,
        "prompt": _prompt(prompt),
        "context": context,
        "system_prompt": system_prompt,
        "model": model,
        "metadata": _metadata(metadata),
        "timeout_ms": None if timeout is None else max(1, round(timeout * 1000)),
        # Chosen here, so that Ctrl-C can name the task before the node has.
        "id": name,
        "as": person,
        "wait": not no_wait,
    }
    given = {name: value for name, value in given.items() if value is not None}
    _wait("task-send", given, name, path, as_json=as_json, only_accepted=no_wait, cancels=True)


@app.command("wait")
def wait(task: Task, path: ConfigFile = None, as_json: Json = False) -> None:
    """Wait for the result of a task, as `send` does, also of one that others have asked for. Ctrl-C leaves it
    alone."""
    _wait("task-wait", {"task": task}, task, path, as_json=as_json, only_accepted=False, cancels=False)


def _wait(
    command: str,
    given: dict[str, Any],
    name: str,
    path: Any,
    *,
    as_json: bool,
    only_accepted: bool,
    cancels: bool,
) -> None:
    waiting = Waiting(Output(as_json=as_json), name, only_accepted=only_accepted)
    code = asyncio.run(wait_for(loaded(path).config.data_dir, command, given, waiting, cancels=cancels))
    raise typer.Exit(code)


def _prompt(said: str) -> str:
    if said != "-":
        prompt = said
    else:
        data = sys.stdin.buffer.read(MOST_READ + 1)
        if len(data) > MOST_READ:
            raise LocalError("The prompt is longer than a megabyte.", "Give the agent a file to look into.")
        try:
            prompt = data.decode("utf-8")
        except UnicodeDecodeError:
            raise LocalError("The prompt is no text in UTF-8.", "Convert it first.") from None
    if not prompt.strip():
        raise LocalError("What is to be done?", "Write the prompt, or - to read it from standard input.")
    return prompt


def _metadata(said: list[str] | None) -> dict[str, str] | None:
    if not said:
        return None
    read = {}
    for one in said:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise LocalError(f"{one} is no metadata.", "Write it as NAME=VALUE.")
        read[name] = value
    return read


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="received, queued, accepted, running, done, failed, cancelled, timed_out, or live; may be "
            "given again.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only those of this agent; an address, or an id alone.")
    ] = None,
    requester: Annotated[
        str | None,
        typer.Option("--requester", help="Only what this agent, node or protocol has asked for."),
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Go on with those before this number.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 50,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List tasks, the newest first. They are kept for a week after their end."""
    answer = ask(
        path,
        "task-list",
        states=state or None,
        agent=agent,
        requester=requester,
        before=before,
        limit=limit,
    )
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tasks"]:
        console.print("There are no such tasks.")
        return
    made = table("task", "from", "to", "state", "asked", "took")
    for one in answer["tasks"]:
        took = duration(one["finished_at"] - one["received_at"]) if one["finished_at"] else None
        asked = ago(one["received_at"], now_ms())
        add(made, one["task"], one["from"], one["to"], _state(one), asked, took)
    console.print(made)
    if answer["next"] is not None:
        console.print(f"There are more: go on with --before {answer['next']}")


def _state(one: Mapping[str, Any]) -> Text:
    words = one["state"].replace("_", " ")
    return cell(f"{words}: {one['error_code']}" if one["error_code"] else words, STYLES.get(one["state"], ""))


@app.command("show")
def show(task: Task, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show a task: what was asked, how it stands, what was reported, and what it came to."""
    answer = ask(path, "task-show", task=task)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, one: Mapping[str, Any]) -> None:
    request, answer = one["request"], one["answer"]
    said = [
        ("task", one["task"]),
        ("its own id", one["task_id"] if not one["task"].startswith(f"{one['task_id']}@") else None),
        ("from", f"{one['from']}  ({one['protocol']})"),
        ("to", f"{one['to']}{'  (elsewhere)' if one['elsewhere'] else ''}"),
        ("state", _state(one)),
        *((state["state"].replace("_", " "), moment(state["at"])) for state in one["states"] if state["at"]),
        ("until", moment(one["deadline"]) if one["finished_at"] is None else None),
        ("asked", f"{one['asked']} times" if one["asked"] > 1 else None),
        ("model", request["model"]),
        ("metadata", request["metadata"] or None),
        ("exit code", answer["exit_code"] if answer is not None else None),
        ("what to do", answer["advice"] if answer is not None else None),
        ("of the answer", answer["metadata"] or None if answer is not None else None),
    ]
    console.print(facts(said))
    for name, text in (
        ("system prompt", request["system_prompt"]),
        ("context", request["context"]),
        ("prompt", request["prompt"]),
    ):
        _block(console, name, text)
    if one["progress"]:
        _block(console, "reports", "\n".join(_report(report) for report in one["progress"]))
    if answer is not None:
        _block(console, "answer", answer["output"])


def _block(console: Console, name: str, text: str | None) -> None:
    if text:
        console.print()
        console.print(Text(name, "bold"))
        console.print(lines(text))


def _report(report: Mapping[str, Any]) -> str:
    return f"{moment(report['at'])}  {report['text']}"


@app.command("cancel")
def cancel(
    task: Task,
    reason: Annotated[str | None, typer.Option("--reason", help="What the agent's side is told.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Cancel a task, whoever has asked for it. Its agent is told to stop."""
    answer = ask(path, "task-cancel", task=task, reason=reason)
    Output(as_json=as_json).show(answer, lambda console: _cancelled(console, answer))
    if not answer["cancelled"]:
        raise typer.Exit(FAILED)


def _cancelled(console: Console, answer: Mapping[str, Any]) -> None:
    if answer["cancelled"]:
        console.print(lines(f"{answer['task']} is cancelled."))
    else:
        state = answer["state"].replace("_", " ")
        console.print(lines(f"There is nothing to cancel: {answer['task']} is {state}.", "yellow"))
