"""Runs the command of an agent: input, output, time limit and end.

The supervisor (`supervisor.py`) starts the command and cleans up after it. The command and the node are
connected by plain pipes. (asyncio would create sockets, which a program cannot open under the name
`/dev/stdin`.) Input is written while output is read, captured output is bounded, and a command that writes
without end is stopped.

`run_task` runs the command for a task and returns the outcome. The node uses it for its own agents, `palaver
agent run` for an attached one.
"""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from errno import ENOENT
from io import FileIO
from pathlib import Path
from typing import Final

from bridge.agents.local import supervisor as program
from bridge.agents.local.command import PROMPT, Word, fill, placeholders, task_environment
from bridge.agents.local.output import (
    NOT_FOUND,
    CapturedOutput,
    Ending,
    Exited,
    NotStarted,
    OutputCapture,
    ProgressReader,
    Signalled,
    Termination,
    outcome_of,
)
from bridge.agents.work import TaskAssignment, WorkOutcome
from bridge.clock import monotonic
from bridge.tasks.errors import ErrorCode, TaskError
from storage.concurrency import BackgroundTasks

SUPERVISOR_PROGRAM: Final = Path(program.__file__)
GRACE: Final = 5.0
"""Seconds between asking a process to end and killing it."""
SUPERVISOR_SLACK: Final = 5.0
"""Seconds that the supervisor may take in addition."""
FLOOD_FACTOR: Final = 64
"""A process is stopped when it has written this many times the captured size, or `MIN_FLOOD_BYTES` if that is
more."""
MIN_FLOOD_BYTES: Final = 64 * 1024 * 1024
_READ_SIZE: Final = 64 * 1024
# The variables that the supervisor's Python gets from the node's environment.
_PYTHON_VARIABLES: Final = ("LD_LIBRARY_PATH",)

ReportProgress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Command:
    """`files` are written to a temporary directory, and their paths are set as variables of the same
    names."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    input: bytes
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    seconds: float
    output: int
    """Bytes of output that are captured."""
    grace: float = GRACE

    @property
    def flood(self) -> int:
        return max(FLOOD_FACTOR * self.output, MIN_FLOOD_BYTES)


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """`stderr` is the end of what the process wrote to standard error."""

    ending: Ending
    output: CapturedOutput
    stderr: str
    seconds: float


async def run(command: Command, limits: ProcessLimits, report_progress: ReportProgress) -> ProcessResult:
    """Run a process until it and all its descendants have ended. When cancelled, end the process first."""
    began = monotonic()
    process = _Process(command, limits, report_progress)
    try:
        ending = await process.run()
    except OSError as error:
        # The system has no more processes, files or memory.
        ending = _not_started(command, "process", error.errno or 0)
    return ProcessResult(ending, process.output.captured(), process.progress.end(), monotonic() - began)


class _Process:
    def __init__(self, command: Command, limits: ProcessLimits, report_progress: ReportProgress) -> None:
        self._command = command
        self._limits = limits
        self._report_progress = report_progress
        self.output = OutputCapture(limits.output)
        self.progress = ProgressReader()
        self._progressed = asyncio.Event()
        self._flooded = asyncio.Event()
        self._ending: Ending | None = None
        self._pid: int | None = None

    async def run(self) -> Ending:
        with contextlib.ExitStack() as unconnected, contextlib.ExitStack() as transports:
            supervisor, pipes = await _start_supervisor(unconnected)
            try:
                reader, writer = await asyncio.open_unix_connection(sock=pipes.control)
                transports.callback(writer.close)
                writer.write(self._plan())
                output = await _reader(pipes.output, transports)
                stderr = await _reader(pipes.stderr, transports)
                await self._feed(pipes.input, transports)
                unconnected.pop_all()
                return await self._run_to_end(reader, writer, output, stderr)
            finally:
                # When the control socket closes, the supervisor ends what is left, as after a crash of the
                # node.
                transports.close()
                await _wait_for_supervisor(supervisor)

    async def _run_to_end(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: asyncio.StreamReader,
        stderr: asyncio.StreamReader,
    ) -> Ending:
        tasks = BackgroundTasks()
        watching = tasks.spawn("watch a process", self._watch(reader), reports=False)
        flooding = tasks.spawn("limit the output of a process", self._flooded.wait(), reports=False)
        reading = [
            tasks.spawn("read the output of a process", self._read(output, self.output.add), reports=False),
            tasks.spawn("read the progress of a process", self._read(stderr, self._add_progress), reports=False),
        ]
        tasks.spawn("report the progress of a process", self._report_pending_progress(), reports=False)
        try:
            why = await self._wait(watching, flooding)
            ending = self._ending or why
            await self._end(writer, watching)
            # No process is left that could write, so reading ends soon.
            await asyncio.wait(reading, timeout=SUPERVISOR_SLACK)
            return ending or self._ending or Termination.LOST
        except asyncio.CancelledError:
            await self._end(writer, watching)
            raise
        finally:
            await tasks.close()

    # -- input and output --

    def _plan(self) -> bytes:
        environment = dict(self._command.environment)
        directory: str | None = None
        if self._command.files:
            directory = tempfile.mkdtemp(prefix="palaver-task-")
            for name, content in self._command.files.items():
                file = Path(directory, name.lower())
                file.write_bytes(content.encode("utf-8", "replace"))
                environment[name] = str(file)
        plan = {
            "words": self._command.words,
            "environment": environment,
            "directory": str(self._command.directory),
            "grace": self._limits.grace,
            "files": directory,
        }
        return json.dumps(plan).encode() + b"\n"

    async def _feed(self, pipe: FileIO, transports: contextlib.ExitStack) -> None:
        """Write the input while the process reads it, then close the pipe. It is no error if the process does
        not read all of it."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(_Input, pipe)
        transports.callback(lambda: None if protocol.is_lost else transport.abort())
        transport.write(self._command.input)
        transport.close()

    async def _read(self, reader: asyncio.StreamReader, add: Callable[[bytes], None]) -> None:
        while data := await reader.read(_READ_SIZE):
            add(data)
            if self.output.total + self.progress.total > self._limits.flood:
                self._flooded.set()

    def _add_progress(self, data: bytes) -> None:
        self.progress.add(data)
        self._progressed.set()

    async def _report_pending_progress(self) -> None:
        while True:
            deadline = self.progress.deadline()
            if deadline is None:
                self._progressed.clear()
                await self._progressed.wait()
                continue
            await asyncio.sleep(max(0.0, deadline - monotonic()))
            message = self.progress.due(monotonic())
            if message is not None:
                await self._report_progress(message)

    # -- end of the process --

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """Read the supervisor's messages until no process is left. Its first message about the end counts."""
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                match line.split():
                    case [b"started", pid]:
                        self._pid = int(pid)
                    case [b"refused", stage, number]:
                        self._ending = _not_started(self._command, stage.decode(), int(number))
                    case [b"ended", status]:
                        self._ending = self._ending or _ending(int(status))
                    case [b"gone"]:
                        return
        self._kill()

    async def _wait(self, watching: "asyncio.Task[None]", flooded: "asyncio.Task[bool]") -> Termination | None:
        """Wait until the process ends or must be stopped. Returns the reason for stopping it, or None."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                await asyncio.wait({watching, flooded}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return Termination.TIME_LIMIT
        return None if watching.done() else Termination.FLOOD

    async def _end(self, writer: asyncio.StreamWriter, watching: "asyncio.Task[None]") -> None:
        if watching.done():
            return
        writer.write(b"end\n")
        await asyncio.wait({watching}, timeout=self._limits.grace + SUPERVISOR_SLACK)
        if not watching.done():
            self._kill()

    def _kill(self) -> None:
        """Kill the process group if the supervisor did not. A process in another session cannot be
        reached."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)


# -- the supervisor and the pipes --


class _Input(asyncio.BaseProtocol):
    """A closed transport still writes what it has buffered, but a lost one must not be used."""

    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@dataclass(frozen=True, slots=True)
class _Pipes:
    """The node's ends of the pipes."""

    input: FileIO
    output: FileIO
    stderr: FileIO
    control: socket.socket


async def _start_supervisor(node_ends: contextlib.ExitStack) -> tuple[asyncio.subprocess.Process, _Pipes]:
    with contextlib.ExitStack() as command_ends:
        command_input, input_ = _pipe(command_ends, node_ends)
        output, command_output = _pipe(node_ends, command_ends)
        stderr, command_stderr = _pipe(node_ends, command_ends)
        control, other = socket.socketpair()
        node_ends.enter_context(control)
        command_ends.enter_context(other)
        supervisor = await asyncio.create_subprocess_exec(
            sys.executable,
            # Neither the working directory nor the environment may influence what the supervisor imports.
            *("-I", "-S", str(SUPERVISOR_PROGRAM), str(other.fileno())),
            stdin=command_input,
            stdout=command_output,
            stderr=command_stderr,
            pass_fds=(other.fileno(),),
            start_new_session=True,
            env={name: os.environ[name] for name in _PYTHON_VARIABLES if name in os.environ},
        )
    return supervisor, _Pipes(input_, output, stderr, control)


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    read, write = os.pipe()
    return reader.enter_context(FileIO(read, "rb")), writer.enter_context(FileIO(write, "wb"))


async def _reader(pipe: FileIO, transports: contextlib.ExitStack) -> asyncio.StreamReader:
    """Read with a limit: beyond it data stays in the pipe, and the process has to wait."""
    reader = asyncio.StreamReader(limit=_READ_SIZE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    transports.callback(transport.close)
    return reader


async def _wait_for_supervisor(supervisor: asyncio.subprocess.Process) -> None:
    """Wait for the supervisor to end. The wait is bounded, because a process may survive even SIGKILL."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SUPERVISOR_SLACK):
            await supervisor.wait()


# -- result --


def _ending(status: int) -> Ending:
    if not os.WIFSIGNALED(status):
        return Exited(os.waitstatus_to_exitcode(status))
    number = os.WTERMSIG(status)
    known = {one.value: one.name for one in signal.Signals}
    return Signalled(number, known.get(number, f"signal {number}"))


def _not_started(command: Command, stage: str, number: int) -> NotStarted:
    why = os.strerror(number)
    match stage:
        case "directory":
            return NotStarted(
                "This agent's working directory cannot be opened.",
                f"The directory {command.directory} cannot be opened: {why}.",
            )
        case "command" if number == ENOENT:
            reason = "The command of this agent was not found."
            return NotStarted(reason, f"The command {command.words[0]} was not found.", NOT_FOUND)
        case "command":
            reason = "The command of this agent could not be run."
            return NotStarted(reason, f"The command {command.words[0]} could not be run: {why}.")
        case _:
            return NotStarted("No process could be started for this agent.", f"No process could be started: {why}.")


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """How to run the tasks of an agent."""

    words: tuple[Word, ...]
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    time_limit: float
    """In seconds."""
    max_output: int
    grace: float = GRACE


@dataclass(frozen=True, slots=True)
class TaskRun:
    """The outcome of a task. `ending` is None if no process was started."""

    outcome: WorkOutcome
    ending: Ending | None = None
    seconds: float = 0.0
    has_output: bool = False


async def run_task(
    settings: CommandSettings, task: TaskAssignment, report_progress: ReportProgress, *, now_ms: Callable[[], int]
) -> TaskRun:
    """Run the command for a task. When cancelled, it leaves no process behind."""
    words = fill(settings.words, task)
    if isinstance(words, TaskError):
        return TaskRun(words)
    left = (task.deadline_ms - now_ms()) / 1000
    if left <= 0:
        return TaskRun(TaskError(ErrorCode.TIMEOUT, "The deadline had passed when the agent got the task."))
    seconds = min(left, settings.time_limit)
    variables = task_environment(task)
    command = Command(
        words=words,
        environment={**settings.environment, **variables.variables},
        directory=settings.directory,
        # A prompt that is passed as an argument is not passed as input too.
        input=b"" if PROMPT in placeholders(settings.words) else task.prompt.encode("utf-8", "replace"),
        files=variables.files,
    )
    ran = await run(command, ProcessLimits(seconds, settings.max_output, settings.grace), report_progress)
    outcome = outcome_of(ran.ending, ran.output, ran.stderr, seconds)
    return TaskRun(outcome, ran.ending, ran.seconds, bool(ran.output.text.strip()))
