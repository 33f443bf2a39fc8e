"""`palaver task`: send tasks to agents, follow, list and cancel them. `palaver route`: explain an address."""

import asyncio
import contextlib
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, facts, lines, node_directory, table
from bridge.clock import now_ms
from bridge.control.client import NodeGone, ask_node, stream_node
from bridge.tasks.view import CANCELLED, EXIT_CODES
from bridge.text.terminal import harmless, harmless_lines
from bridge.text.times import ago, duration, moment
from storage.errors import LocalError

INTERRUPTED: Final = 130


class TaskMonitor:
    """Shows the progress and the result of one task, and chooses the exit code."""

    def __init__(self, output: Output, name: str, *, only_accepted: bool) -> None:
        """`name` identifies the task until the node returns its key. With `only_accepted` only the key is
        printed, not the result."""
        self._output = output
        self._only_accepted = only_accepted
        self.name = name
        self.is_accepted = False
        self.code: int | None = None

    def show(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "accepted":
            self.is_accepted, self.name = True, str(item["task"])
            if self._only_accepted:
                self.code = 0
        elif kind in ("result", "refused"):
            self.code = int(item["exit"])
        if self._output.as_json:
            self._output.show(item)
        else:
            self._print(item)

    def _print(self, item: Mapping[str, Any]) -> None:
        match item.get("type"):
            case "accepted":
                self._accepted(item)
            case "state" if item["state"] == "queued":
                self._note("queued: the agent is busy")
            case "state" if item["state"] == "running":
                self._note("running")
            case "progress":
                self._note(item["text"])
            case "left_out":
                self._note(f"… {item['count']} older progress reports were deleted")
            case "result":
                self._result(item)
            case "refused":
                self._refused(item)

    def _accepted(self, item: Mapping[str, Any]) -> None:
        if self._only_accepted:
            sys.stdout.write(f"{harmless(self.name)}\n")
        else:
            self._note(f"{self.name} for {item['to']}{' (requested before)' if item['again'] else ''}")

    def _result(self, item: Mapping[str, Any]) -> None:
        """Print the agent's output, and nothing else, to standard output."""
        if item["error_code"] is None and item["state"] != "cancelled":
            if not self._only_accepted:
                _write(item["output"])
            if not item["success"]:
                self._note(f"The agent failed with exit code {item['exit_code']}.")
            return
        code, advice = item["error_code"], item["advice"]
        self._note(f"{code}: {item['output']} {advice}" if code is not None else item["output"])

    def _refused(self, item: Mapping[str, Any]) -> None:
        candidates = ", ".join(map(str, item["metadata"].get("candidates") or []))
        hint = f" Candidates: {candidates}." if candidates else ""
        self._note(f"{item['error_code']}: {item['reason']}{hint} {item['advice']}")

    def interrupted(self, *, is_cancelled: bool) -> None:
        self.code = INTERRUPTED
        if self._output.as_json:
            self._output.show({"type": "interrupted", "task": self.name, "cancelled": is_cancelled})
        else:
            self._note(f"{self.name} {self._outcome_of_interrupt(is_cancelled=is_cancelled)}.")

    def _outcome_of_interrupt(self, *, is_cancelled: bool) -> str:
        if is_cancelled:
            return "is cancelled"
        if self.is_accepted:
            return "continues in the background"
        return "may have been accepted; see `palaver task show`"

    def _note(self, text: str) -> None:
        self._output.err.print(harmless(text), markup=False)


async def wait_for(data_dir: Path, command: str, given: dict[str, Any], monitor: TaskMonitor, *, cancels: bool) -> int:
    """Follow a task to its end and return the exit code. With `cancels` Ctrl-C cancels the task; a second
    Ctrl-C exits at once."""
    try:
        async with contextlib.aclosing(stream_node(data_dir, command, given)) as items:
            async for item in items:
                monitor.show(item)
    except NodeGone as error:
        raise _node_gone(error, monitor) from None
    except asyncio.CancelledError:
        monitor.interrupted(is_cancelled=cancels and await _cancel(data_dir, monitor))
    return FAILED if monitor.code is None else monitor.code


async def _cancel(data_dir: Path, monitor: TaskMonitor) -> bool:
    """Return whether the task was cancelled. The node may not have received it yet."""
    try:
        answer = await ask_node(data_dir, "task-cancel", {"task": monitor.name, "reason": "Ctrl-C"})
    except LocalError:
        return False
    return bool(answer.get("cancelled"))


def _node_gone(error: NodeGone, monitor: TaskMonitor) -> LocalError:
    if monitor.is_accepted:
        return LocalError(
            f"{error.problem} The task {monitor.name} is stored in its database.",
            f"Continue with `palaver task wait '{monitor.name}'` when the node is running again.",
        )
    return LocalError(
        f"{error.problem} It is not known whether the node accepted the task.",
        f"Check with `palaver task show '{monitor.name}'` when the node is running again.",
    )


def _write(output: str) -> None:
    """Write the output unchanged to a pipe or file, and without control characters to a terminal."""
    if sys.stdout.isatty():
        sys.stdout.write(harmless_lines(output) + ("" if output.endswith("\n") else "\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(output.encode("utf-8", "replace"))
    sys.stdout.flush()


app = typer.Typer(help="Send tasks to agents, and follow or cancel them.", no_args_is_help=True)

MAX_READ = 1_048_576
"""Maximum bytes from standard input. The node has a lower limit and its own error message."""
STYLES = {"done": "green", "failed": "red", "timed_out": "red", "cancelled": "yellow", "running": "cyan"}
_CODES = ", ".join(f"{number} {code.value}" for code, number in EXIT_CODES.items())

Task = Annotated[
    str, typer.Argument(metavar="TASK", help="The task's key, its id or its request id.", show_default=False)
]


@app.command(
    "send",
    epilog=f"Exit codes: 0 for success, the agent's exit code if it failed, {_CODES}, {CANCELLED} cancelled,"
    " 130 Ctrl-C, 1 any other error.",
)
def send(
    address: Annotated[str, typer.Argument(help="agent@node, or only the id if it is unique.", show_default=False)],
    prompt: Annotated[str, typer.Argument(help="The prompt; - reads it from standard input.", show_default=False)],
    context: Annotated[str | None, typer.Option("--context", help="Conversation context.")] = None,
    system_prompt: Annotated[str | None, typer.Option("--system-prompt", help="System prompt.")] = None,
    model: Annotated[str | None, typer.Option("--model", help="The model to use.")] = None,
    metadata: Annotated[
        list[str] | None, typer.Option("--metadata", help="Metadata as NAME=VALUE. Repeatable.")
    ] = None,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0.001, help="Timeout in seconds.")] = None,
    request_id: Annotated[
        str | None, typer.Option("--id", help="The request's id. A repeated request with the same id is the same task.")
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="USER",
            help="Send the task in the name of this user, like @alice:example.org, with the user's permissions.",
        ),
    ] = None,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", "--detach", help="Print the task's key and exit without waiting.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Send a task to an agent and wait for the result. Progress is streamed to standard error, the agent's
    output is written to standard output. Ctrl-C cancels the task.

    Example: palaver task send worker-1 'Summarise the README' --timeout 60"""
    name = request_id or f"operator-{secrets.token_hex(8)}"
    given = {
        "to": address,
        "prompt": _prompt(prompt),
        "context": context,
        "system_prompt": system_prompt,
        "model": model,
        "metadata": _metadata(metadata),
        "timeout_ms": None if timeout is None else max(1, round(timeout * 1000)),
        # Chosen here, so that Ctrl-C can cancel the task before the node has returned its key.
        "id": name,
        "as": person,
        "wait": not no_wait,
    }
    given = {name: value for name, value in given.items() if value is not None}
    _wait("task-send", given, name, path, as_json=as_json, only_accepted=no_wait, cancels=True)


@app.command("wait")
def wait(task: Task, path: ConfigFile = None, as_json: Json = False) -> None:
    """Wait for the result of a task of any requester, and print it like `send`. Ctrl-C does not cancel the
    task.

    Example: palaver task wait operator-5f2c@kitchen.local"""
    _wait("task-wait", {"task": task}, task, path, as_json=as_json, only_accepted=False, cancels=False)


def _wait(
    command: str, given: dict[str, Any], name: str, path: Any, *, as_json: bool, only_accepted: bool, cancels: bool
) -> None:
    monitor = TaskMonitor(Output(as_json=as_json), name, only_accepted=only_accepted)
    code = asyncio.run(wait_for(node_directory(path), command, given, monitor, cancels=cancels))
    raise typer.Exit(code)


def _prompt(argument: str) -> str:
    if argument != "-":
        prompt = argument
    else:
        data = sys.stdin.buffer.read(MAX_READ + 1)
        if len(data) > MAX_READ:
            raise LocalError("The prompt is longer than a megabyte.", "Write it to a file that the agent can read.")
        try:
            prompt = data.decode("utf-8")
        except UnicodeDecodeError:
            raise LocalError("The prompt is not UTF-8 text.", "Convert it to UTF-8.") from None
    if not prompt.strip():
        raise LocalError("The prompt is empty.", "Write a prompt, or - to read it from standard input.")
    return prompt


def _metadata(arguments: list[str] | None) -> dict[str, str] | None:
    if not arguments:
        return None
    metadata = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise LocalError(f"{argument} is not valid metadata.", "Write it as NAME=VALUE.")
        metadata[name] = value
    return metadata


@app.command("list")
def list_(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="Only tasks in this state: received, queued, accepted, running, done, failed, cancelled,"
            " timed_out, or live for all that have not ended. Repeatable.",
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Only tasks for this agent: an address or an id.")
    ] = None,
    requester: Annotated[
        str | None, typer.Option("--requester", help="Only tasks that this agent, node or protocol has requested.")
    ] = None,
    before: Annotated[
        int | None, typer.Option("--before", help="Continue with tasks before this number.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of tasks.")] = 50,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List tasks, the newest first. Tasks are stored for a week after their end.

    Example: palaver task list --agent worker-1 --state live"""
    answer = ask(path, "task-list", states=state or None, agent=agent, requester=requester, before=before, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["tasks"]:
        console.print("No tasks found.")
        return
    made = table("task", "from", "to", "state", "received", "duration")
    for task in answer["tasks"]:
        took = duration(task["finished_at"] - task["received_at"]) if task["finished_at"] else None
        received = ago(task["received_at"], now_ms())
        add(made, task["task"], task["from"], task["to"], _state(task), received, took)
    console.print(made)
    if answer["next"] is not None:
        console.print(f"There are more tasks: continue with --before {answer['next']}")


def _state(task: Mapping[str, Any]) -> Text:
    words = task["state"].replace("_", " ")
    text = f"{words}: {task['error_code']}" if task["error_code"] else words
    return cell(text, STYLES.get(task["state"], ""))


@app.command("show")
def show(task: Task, path: ConfigFile = None, as_json: Json = False) -> None:
    """Show a task: its request, state, progress and answer.

    Example: palaver task show operator-5f2c@kitchen.local"""
    answer = ask(path, "task-show", task=task)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))


def _show(console: Console, task: Mapping[str, Any]) -> None:
    request, answer = task["request"], task["answer"]
    items = [
        ("task", task["task"]),
        ("task id", task["task_id"] if not task["task"].startswith(f"{task['task_id']}@") else None),
        ("from", f"{task['from']}  ({task['protocol']})"),
        ("to", f"{task['to']}{'  (on another node)' if task['elsewhere'] else ''}"),
        ("state", _state(task)),
        *((state["state"].replace("_", " "), moment(state["at"])) for state in task["states"] if state["at"]),
        ("deadline", moment(task["deadline"]) if task["finished_at"] is None else None),
        ("requested", f"{task['asked']} times" if task["asked"] > 1 else None),
        ("model", request["model"]),
        ("metadata", request["metadata"] or None),
        ("exit code", answer["exit_code"] if answer is not None else None),
        ("advice", answer["advice"] if answer is not None else None),
        ("answer metadata", answer["metadata"] or None if answer is not None else None),
    ]
    console.print(facts(items))
    for name, text in (
        ("system prompt", request["system_prompt"]),
        ("context", request["context"]),
        ("prompt", request["prompt"]),
    ):
        _block(console, name, text)
    if task["progress"]:
        _block(console, "progress", "\n".join(_report(report) for report in task["progress"]))
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
    reason: Annotated[str | None, typer.Option("--reason", help="The reason to send to the agent.")] = None,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Cancel a task of any requester. The agent is asked to stop.

    Example: palaver task cancel operator-5f2c@kitchen.local --reason 'wrong branch'"""
    answer = ask(path, "task-cancel", task=task, reason=reason)
    Output(as_json=as_json).show(answer, lambda console: _cancelled(console, answer))
    if not answer["cancelled"]:
        raise typer.Exit(FAILED)


def _cancelled(console: Console, answer: Mapping[str, Any]) -> None:
    if answer["cancelled"]:
        console.print(lines(f"{answer['task']} is cancelled."))
    else:
        state = answer["state"].replace("_", " ")
        console.print(lines(f"Nothing to cancel: {answer['task']} is {state}.", "yellow"))


DECISIONS = {"local": ("Local", "green"), "remote": ("Remote", "green"), "unknown": ("Unknown", "yellow")}


def route(
    address: Annotated[str, typer.Argument(help="agent@node, or only the id if it is unique.", show_default=False)],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Show the route of an address and the reason: an agent of this node, another node, or none.

    Example: palaver route worker-1@kitchen.local"""
    answer = ask(path, "route", address=address)
    Output(as_json=as_json).show(answer, lambda console: _show_route(console, answer))
    if answer["decision"] == "unknown":
        raise typer.Exit(FAILED)


def _show_route(console: Console, answer: Mapping[str, Any]) -> None:
    word, style = DECISIONS.get(answer["decision"], (answer["decision"], ""))
    node = ""
    if answer["decision"] == "remote":
        node = f" {answer['node_id']} at {answer['url']}" if answer["url"] else f" {answer['node_id']}"
    console.print(Text.assemble(cell(word + node, style), "  ", cell(answer["why"])))
    if answer["advice"]:
        console.print(Text.assemble("    → ", cell(answer["advice"])))
