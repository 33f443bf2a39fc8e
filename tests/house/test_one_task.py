"""The number of modules that run for one task, on the node that runs it.

docs/architecture.md describes the same path, with names.
"""

import asyncio
import contextvars
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from bridge.config.files import load_config
from bridge.run import Node
from tests.house.source import ROOT
from tests.process.agent_nodes import AgentNode
from tests.support.ports import lasting_port
from tests.support.postgres import Server

KITCHEN, LIVING = "kitchen.test", "living.test"
WORKER = f"worker@{KITCHEN}"
WARMING, FEWEST, MOST = 2, 6, 60
"""How many tasks go before, and how many are counted."""

# Modules whose coroutines process the task: they receive, store, deliver or send it.
# Both limits only shrink.
MOST_ON_THE_WAY = 47
# These, and all that they call and that returns at once: decisions, values, queues in memory, reports.
MOST_ENTERED = 143

# Background tasks that run on their own time, and not because of a task.
BESIDE = {
    "announcements of agents": "registrations of agents, told to all nodes",
    "joins of peers' rooms": "joining rooms of other nodes",
    "join of a peer's room": "the same",
    "event loop lag": "a metric",
    "events for published nodes": "nodes without Matrix, of which there is none here",
    "heartbeat in rooms": "heartbeats",
    "heartbeat to published nodes": "heartbeats",
    "heartbeats of other nodes": "heartbeats",
    "receipts and presence": "read receipts and presence of agents",
    "session with Postgres": "notifications between the processes of a node",
    "show a task": "a thread for people",
    "statuses of agents": "the status of an agent is announced to all nodes",
    "AgentAnnouncer._try": "the same, and registrations",
    "database availability": "a metric and a readiness check",
}

IS_TRACED = contextvars.ContextVar("is traced", default=False)
"""Inherited by all tasks and callbacks of the node that is started with it."""


class Trace:
    """Records the product's functions that the traced node enters, by module: coroutines, and all
    functions."""

    def __init__(self) -> None:
        self.on_the_way: dict[str, set[str]] = {}
        self.entered: dict[str, set[str]] = {}
        self._modules: dict[CodeType, str] = {}

    def __enter__(self) -> "Trace":
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _profile(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not IS_TRACED.get():
            return
        code = frame.f_code
        module = self._module(code)
        if not module or _background() in BESIDE:
            return
        self.entered.setdefault(module, set()).add(code.co_qualname)
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            self.on_the_way.setdefault(module, set()).add(code.co_qualname)

    def _module(self, code: CodeType) -> str:
        """Return the module within the product's packages; None for other code."""
        if code not in self._modules:
            path = Path(code.co_filename)
            ours = path.is_relative_to(ROOT) and path.relative_to(ROOT)
            is_product = ours and ours.parts[0] in {"bridge", "appservice", "federation", "storage"}
            self._modules[code] = str(ours) if is_product else ""
        return self._modules[code]


def _background() -> str | None:
    """Return the name of the running task, or of its coroutine."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    if task is None:
        return None
    name, work = task.get_name(), task.get_coro()
    return getattr(work, "__qualname__", name) if name.startswith("Task-") else name


@pytest.fixture
async def living(postgres_server: Server, migrated_template: str) -> AsyncIterator[AgentNode]:
    """A node that requests tasks from the kitchen, the traced node in the same process."""
    # Not below the directory of the test: the path of a Unix socket has 107 bytes.
    directory = Path(tempfile.mkdtemp(prefix="palaver-one-task-"))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        made = []
        for name, agents in ((KITCHEN, ["worker"]), (LIVING, [])):
            database = await postgres_server.create(migrated_template)
            stack.push_async_callback(postgres_server.drop, database)
            (directory / name).mkdir()
            made.append(
                AgentNode(Path(), directory / name, lasting_port(), 0, database=database, name=name, agents=agents)
            )
        made[0].peers, made[1].peers = [made[1]], [made[0]]
        for one in made:
            one.write_files()
            file = one.directory / "palaver.toml"
            file.write_text(re.sub("heartbeat_interval_secs = .*", "heartbeat_interval_secs = 30", file.read_text()))
        for one in made:
            context = contextvars.copy_context()
            context.run(IS_TRACED.set, one.name == KITCHEN)
            node = Node(load_config(one.directory / "palaver.toml", {}, one.directory).config)
            await asyncio.create_task(node.start(), context=context)
            stack.push_async_callback(node.stop)
        await made[1].sees(WORKER)
        yield made[1]


async def test_one_task_passes_through_few_modules(living: AgentNode) -> None:
    """When everything is warm: the rooms are joined, the keys are known. What only some of the tasks meet
    (a heartbeat, a status in the same transaction) is not theirs; on a busy machine it takes more tasks to
    see that."""
    traces: list[Trace] = []
    for number in range(WARMING + MOST):
        with Trace() as trace:
            await living.ask(WORKER, "echo done", f"task-{number}")
            task = await living.answered(f"task-{number}")
        assert task["answer"]["output"] == "done\n"
        traces.append(trace)
        on_the_way = set.intersection(*(set(one.on_the_way) for one in traces[WARMING:] or traces))
        entered = set.intersection(*(set(one.entered) for one in traces[WARMING:] or traces))
        if number >= WARMING + FEWEST and _are_few(on_the_way, entered):
            break
    listed = "\n".join(f"{one}: {sorted(traces[-1].on_the_way[one])}" for one in sorted(on_the_way))
    assert _are_few(on_the_way, entered), f"{listed}\n\n{sorted(entered - on_the_way)}"


def _are_few(on_the_way: set[str], entered: set[str]) -> bool:
    return len(on_the_way) <= MOST_ON_THE_WAY and len(entered) <= MOST_ENTERED
