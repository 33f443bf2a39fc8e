"""When a command that does not work is tried again."""

import asyncio
from pathlib import Path

import pytest

from bridge.agents.local import health as agent_health
from bridge.agents.local.health import HealthMonitor, problem_of
from bridge.agents.local.output import Exited, NotStarted
from bridge.agents.local.process import CommandSettings, TaskRun
from bridge.tasks.answer import Answer

PATH = {"PATH": "/usr/bin:/bin"}
MISSING = TaskRun(Answer(False, "", 127), NotStarted("It is missing.", "x is missing.", 127))
GOOD = TaskRun(Answer(True, "", 0), Exited(0), 1.0)


def recipe(*words: str, directory: Path = Path("/")) -> CommandSettings:
    return CommandSettings(words, PATH, directory, 60.0, 1000)


async def test_nothing_starts_until_the_command_may_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is available meanwhile."""
    monkeypatch.setattr(agent_health, "MIN_RETRY_DELAY", 0.01)
    told: list[str] = []
    program = tmp_path / "program"
    fitness = HealthMonitor(recipe(str(program)), failed=told.append, recovered=lambda: told.append("again"))
    await fitness.wait()
    fitness.record(MISSING)
    fitness.record(MISSING)
    assert (told, fitness.problem) == (["x is missing."], "x is missing.")
    waiting = asyncio.create_task(fitness.wait())
    while fitness.problem == "x is missing.":
        await asyncio.sleep(0.01)
    assert fitness.problem == f"The command {program} was not found or is not executable."
    # A task that started before the failure and succeeds does not end the pause.
    fitness.record(GOOD)
    assert "not found" in fitness.problem
    assert not waiting.done()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    async with asyncio.timeout(60):
        await waiting
    assert told == ["x is missing.", "again"]
    fitness.record(GOOD)
    assert not fitness.problem
    fitness.record(TaskRun(Answer(True, "", 0)))
    await fitness.close()


async def test_a_closed_monitor_does_not_recover() -> None:
    """And calls no listener."""
    told: list[str] = []
    fitness = HealthMonitor(recipe("no-such-program"), failed=told.append, recovered=lambda: told.append("again"))
    fitness.record(MISSING)
    await fitness.close()
    assert told == ["x is missing."]


def test_visible_problems(tmp_path: Path) -> None:
    """A missing directory, a program that is missing or not executable; not one with a placeholder in its
    name."""
    (tmp_path / "here").write_text("#!/bin/sh\n")
    (tmp_path / "here").chmod(0o700)
    (tmp_path / "text").write_text("")
    for words, directory, problem in (
        (("sh",), tmp_path, None),
        (("./here",), tmp_path, None),
        (("{model}",), tmp_path, None),
        (("./text",), tmp_path, "./text"),
        (("no-such-program",), tmp_path, "no-such-program"),
        (("sh",), tmp_path / "none", "directory"),
    ):
        found = problem_of(recipe(*words, directory=directory))
        assert (found is None) if problem is None else (problem in (found or ""))
