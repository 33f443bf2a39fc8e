"""Waits for a task at the terminal: shows what comes, and knows with which code to end."""

import asyncio
import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bridge.cli.output import FAILED, Output
from bridge.service.control_client import NodeGone, ask_node, stream_node
from bridge.terminal_text import harmless, harmless_lines
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
