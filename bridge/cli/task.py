"""`palaver task`: work for agents.

Waits for a task at the terminal: shows what comes, and knows with which code to end.

`palaver route`: where an address leads.
"""

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

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, facts, lines, loaded, table
from bridge.clock import now_ms
from bridge.control.client import NodeGone, ask_node, stream_node
from bridge.tasks.view import CANCELLED, CODES
from bridge.text.terminal import harmless, harmless_lines
from bridge.text.times import ago, duration, moment
from storage.errors import LocalError

INTERRUPTED: Final = 130


class Waiting:
    """What is shown of one task. `name` is what it is called before the node has said its key."""

    def __init__(self, output: Output, name: str, *, only_accepted: bool) -> None:
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
            self._tell(item)

    def _tell(self, item: Mapping[str, Any]) -> None:
        match item.get("type"):
            case "accepted":
                self._accepted(item)
            case "state" if item["state"] == "queued":
                self._say("waits: the agent is busy")
            case "state" if item["state"] == "running":
                self._say("is worked on")
            case "progress":
                self._say(item["text"])
            case "left_out":
                self._say(f"… {item['count']} reports are not kept any more")
            case "result":
                self._result(item)
            case "refused":
                self._refused(item)

    def _accepted(self, item: Mapping[str, Any]) -> None:
        if self._only_accepted:
            sys.stdout.write(f"{harmless(self.name)}\n")
        else:
            self._say(f"{self.name} for {item['to']}{' (asked before)' if item['again'] else ''}")

    def _result(self, item: Mapping[str, Any]) -> None:
        """On standard output stands what the agent has said, and nothing else."""
        if item["error_code"] is None and item["state"] != "cancelled":
            if not self._only_accepted:
                _write(item["output"])
            if not item["success"]:
                self._say(f"The agent failed, with exit code {item['exit_code']}.")
            return
        code, advice = item["error_code"], item["advice"]
        words = f"{code}: {item['output']} {advice}" if code is not None else item["output"]
        self._say(words)

    def _refused(self, item: Mapping[str, Any]) -> None:
        named = ", ".join(map(str, item["metadata"].get("candidates") or []))
        meant = f" There is {named}." if named else ""
        self._say(f"{item['error_code']}: {item['reason']}{meant} {item['advice']}")

    def interrupted(self, *, is_cancelled: bool) -> None:
        self.code = INTERRUPTED
        if self._output.as_json:
            self._output.show({"type": "interrupted", "task": self.name, "cancelled": is_cancelled})
        else:
            self._say(f"{self.name} {self._fate(is_cancelled=is_cancelled)}.")

    def _fate(self, *, is_cancelled: bool) -> str:
        if is_cancelled:
            return "is cancelled"
        if self.is_accepted:
            return "goes on without you"
        return "may have been taken; `palaver task show` tells"

    def _say(self, text: str) -> None:
        self._output.err.print(harmless(text), markup=False)


async def wait_for(
    data_dir: Path, command: str, given: dict[str, Any], waiting: Waiting, *, cancels: bool
) -> int:
    """The code with which to end. Ctrl-C cancels what this command has asked for; a second one leaves."""
    try:
        async with contextlib.aclosing(stream_node(data_dir, command, given)) as items:
            async for item in items:
                waiting.show(item)
    except NodeGone as gone:
        raise _gone(gone, waiting) from None
    except asyncio.CancelledError:
        waiting.interrupted(is_cancelled=cancels and await _cancel(data_dir, waiting))
    return FAILED if waiting.code is None else waiting.code


async def _cancel(data_dir: Path, waiting: Waiting) -> bool:
    """Whether it was. Before the node has said anything it may not know the task."""
    try:
        answer = await ask_node(data_dir, "task-cancel", {"task": waiting.name, "reason": "Ctrl-C"})
    except LocalError:
        return False
    return bool(answer.get("cancelled"))


def _gone(gone: NodeGone, waiting: Waiting) -> LocalError:
    if waiting.is_accepted:
        return LocalError(
            f"{gone.problem} The task {waiting.name} is in its database.",
            f"`palaver task wait '{waiting.name}'` goes on once the node is back.",
        )
    return LocalError(
        f"{gone.problem} Whether it has taken the task is not known.",
        f"`palaver task show '{waiting.name}'` tells once the node is back.",
    )


def _write(output: str) -> None:
    """As it is; only on a terminal of somebody made harmless."""
    if sys.stdout.isatty():
        sys.stdout.write(harmless_lines(output) + ("" if output.endswith("\n") else "\n"))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(output.encode("utf-8", "replace"))
    sys.stdout.flush()


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


DECISIONS = {"local": ("Local", "green"), "remote": ("Remote", "green"), "unknown": ("Unknown", "yellow")}


def route(
    address: Annotated[
        str, typer.Argument(help="agent@node, or an id alone where that is enough.", show_default=False)
    ],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say where an address leads, and why: to an agent here, to one of another node, or nowhere."""
    answer = ask(path, "route", address=address)
    Output(as_json=as_json).show(answer, lambda console: _show_route(console, answer))
    if answer["decision"] == "unknown":
        raise typer.Exit(FAILED)


def _show_route(console: Console, answer: Mapping[str, Any]) -> None:
    word, style = DECISIONS.get(answer["decision"], (answer["decision"], ""))
    where = ""
    if answer["decision"] == "remote":
        where = f" {answer['node_id']} at {answer['url']}" if answer["url"] else f" {answer['node_id']}"
    console.print(Text.assemble(cell(word + where, style), "  ", cell(answer["why"])))
    if answer["advice"]:
        console.print(Text.assemble("    → ", cell(answer["advice"])))
