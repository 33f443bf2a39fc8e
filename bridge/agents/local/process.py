"""Runs one process of an agent: input, output, time and end.

The warden (`warden.py`) starts the command and sees to its end; between the command and the node there
are plain pipes. (The event loops would make sockets, and those cannot be opened by the name `/dev/stdin`.)
Nobody waits for anybody here: input is written while output is read, of output no more is kept than is
wanted, and what writes without end is ended.

From a task to its answer by running a command: what the node does for agents of its own, and
`palaver agent run` for one that is attached from elsewhere.
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

from bridge.agents.local import warden as program
from bridge.agents.local.command import PROMPT, Word, fill, placeholders, task_environment
from bridge.agents.local.output import (
    NOT_FOUND,
    Ended,
    Ending,
    Exited,
    Kept,
    NotStarted,
    Output,
    Progress,
    Signalled,
    answer,
)
from bridge.agents.work import TaskToDo, WorkOutcome
from bridge.clock import monotonic
from bridge.tasks.errors import ErrorCode, TaskError
from storage.concurrency import BackgroundTasks

WARDEN: Final = Path(program.__file__)
GRACE: Final = 5.0
"""Seconds between asking a process to end and killing it."""
SLACK: Final = 5.0
"""Seconds that the warden may take beyond that."""
FLOOD: Final = 64
"""So many times what is kept may be written, and at least:"""
LEAST_FLOOD: Final = 64 * 1024 * 1024
_AT_ONCE: Final = 64 * 1024
# All that the warden's own Python gets of our environment.
_FOR_PYTHON: Final = ("LD_LIBRARY_PATH",)

Tell = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Command:
    """`files` are written into a directory of their own, and their paths put into the environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    directory: Path
    input: bytes
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    seconds: float
    output: int
    """Bytes that are kept of it."""
    grace: float = GRACE

    @property
    def flood(self) -> int:
        return max(FLOOD * self.output, LEAST_FLOOD)


@dataclass(frozen=True, slots=True)
class Ran:
    """`said` is the end of what was written to standard error."""

    ending: Ending
    output: Kept
    said: str
    seconds: float


async def run(command: Command, limits: ProcessLimits, tell: Tell) -> Ran:
    """From the start of the process until nothing is left of it. Cancelled, it ends the process, and then
    itself; `tell` is given progress."""
    began = monotonic()
    process = _Process(command, limits, tell)
    try:
        ending = await process.run()
    except OSError as error:
        # There are no more processes, files or memory to be had.
        ending = _not_started(command, "process", error.errno or 0)
    return Ran(ending, process.output.kept(), process.progress.end(), monotonic() - began)


class _Process:
    def __init__(self, command: Command, limits: ProcessLimits, tell: Tell) -> None:
        self._command = command
        self._limits = limits
        self._tell = tell
        self.output = Output(limits.output)
        self.progress = Progress()
        self._progressed = asyncio.Event()
        self._flooded = asyncio.Event()
        self._ending: Ending | None = None
        self._pid: int | None = None

    async def run(self) -> Ending:
        with contextlib.ExitStack() as unconnected, contextlib.ExitStack() as transports:
            warden, pipes = await _start_warden(unconnected)
            try:
                reader, writer = await asyncio.open_unix_connection(sock=pipes.control)
                transports.callback(writer.close)
                writer.write(self._plan())
                output = await _reader(pipes.output, transports)
                said = await _reader(pipes.said, transports)
                await self._feed(pipes.input, transports)
                unconnected.pop_all()
                return await self._see_to_it(reader, writer, output, said)
            finally:
                # Without our end of the socket the warden takes the node for ended, and ends what is left.
                transports.close()
                await _bury(warden)

    async def _see_to_it(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        output: asyncio.StreamReader,
        said: asyncio.StreamReader,
    ) -> Ending:
        tasks = BackgroundTasks()
        watching = tasks.spawn("watch a process", self._watch(reader), reports=False)
        flooding = tasks.spawn("limit the output of a process", self._flooded.wait(), reports=False)
        reading = [
            tasks.spawn("read the output of a process", self._read(output, self.output.add), reports=False),
            tasks.spawn(
                "read the progress of a process", self._read(said, self._add_progress), reports=False
            ),
        ]
        tasks.spawn("report the progress of a process", self._tell_progress(), reports=False)
        try:
            why = await self._wait(watching, flooding)
            ending = self._ending or why
            await self._end(writer, watching)
            # Nobody is left who could still write, so this has an end too.
            await asyncio.wait(reading, timeout=SLACK)
            return ending or self._ending or Ended.LOST
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
        """The transport writes as the process reads, and closes when all is written. A process that does not
        read to the end has its reasons."""
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(_Input, pipe)
        transports.callback(lambda: None if protocol.is_lost else transport.abort())
        transport.write(self._command.input)
        transport.close()

    async def _read(self, reader: asyncio.StreamReader, add: Callable[[bytes], None]) -> None:
        while data := await reader.read(_AT_ONCE):
            add(data)
            if self.output.total + self.progress.total > self._limits.flood:
                self._flooded.set()

    def _add_progress(self, data: bytes) -> None:
        self.progress.add(data)
        self._progressed.set()

    async def _tell_progress(self) -> None:
        while True:
            deadline = self.progress.deadline()
            if deadline is None:
                self._progressed.clear()
                await self._progressed.wait()
                continue
            await asyncio.sleep(max(0.0, deadline - monotonic()))
            message = self.progress.due(monotonic())
            if message is not None:
                await self._tell(message)

    # -- the end --

    async def _watch(self, reader: asyncio.StreamReader) -> None:
        """What the warden says, until nothing is left of the process. The first that is said of its end
        counts."""
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

    async def _wait(self, watching: "asyncio.Task[None]", flooded: "asyncio.Task[bool]") -> Ended | None:
        """Why it has to be ended; None when it has ended by itself."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                await asyncio.wait({watching, flooded}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return Ended.TIME_LIMIT
        return None if watching.done() else Ended.FLOOD

    async def _end(self, writer: asyncio.StreamWriter, watching: "asyncio.Task[None]") -> None:
        if watching.done():
            return
        writer.write(b"end\n")
        await asyncio.wait({watching}, timeout=self._limits.grace + SLACK)
        if not watching.done():
            self._kill()

    def _kill(self) -> None:
        """What the warden should have done; a process that is in another session by now is out of reach."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)


# -- the warden and the pipes --


class _Input(asyncio.BaseProtocol):
    """A transport that is closed goes on writing what it has; one that is lost must not be touched."""

    is_lost = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True


@dataclass(frozen=True, slots=True)
class _Pipes:
    """Our ends of them."""

    input: FileIO
    output: FileIO
    said: FileIO
    control: socket.socket


async def _start_warden(ours: contextlib.ExitStack) -> tuple[asyncio.subprocess.Process, _Pipes]:
    with contextlib.ExitStack() as theirs:
        their_input, input_ = _pipe(theirs, ours)
        output, their_output = _pipe(ours, theirs)
        said, their_said = _pipe(ours, theirs)
        control, other = socket.socketpair()
        ours.enter_context(control)
        theirs.enter_context(other)
        warden = await asyncio.create_subprocess_exec(
            sys.executable,
            # Neither our directory nor anybody's environment has a say in what it imports.
            *("-I", "-S", str(WARDEN), str(other.fileno())),
            stdin=their_input,
            stdout=their_output,
            stderr=their_said,
            pass_fds=(other.fileno(),),
            start_new_session=True,
            env={name: os.environ[name] for name in _FOR_PYTHON if name in os.environ},
        )
    return warden, _Pipes(input_, output, said, control)


def _pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    read, write = os.pipe()
    return reader.enter_context(FileIO(read, "rb")), writer.enter_context(FileIO(write, "wb"))


async def _reader(pipe: FileIO, transports: contextlib.ExitStack) -> asyncio.StreamReader:
    """Beyond its limit it leaves what comes in the pipe, and the process waits."""
    reader = asyncio.StreamReader(limit=_AT_ONCE)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    transports.callback(transport.close)
    return reader


async def _bury(warden: asyncio.subprocess.Process) -> None:
    """It ends when nothing is left. What not even a kill ends would keep us here for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SLACK):
            await warden.wait()


# -- what has become of it --


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
                "The directory that this agent works in cannot be entered.",
                f"The directory {command.directory} cannot be entered: {why}.",
            )
        case "command" if number == ENOENT:
            reason = "The command of this agent was not found."
            return NotStarted(reason, f"The command {command.words[0]} was not found.", NOT_FOUND)
        case "command":
            reason = "The command of this agent could not be run."
            return NotStarted(reason, f"The command {command.words[0]} could not be run: {why}.")
        case _:
            return NotStarted(
                "No process could be started for this agent.", f"No process could be started: {why}."
            )


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an agent's tasks are run."""

    words: tuple[Word, ...]
    environment: Mapping[str, str] = field(repr=False)
    directory: Path
    time_limit: float
    """Seconds."""
    max_output: int
    grace: float = GRACE


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """`ending` is None when no process was started for it."""

    outcome: WorkOutcome
    ending: Ending | None = None
    seconds: float = 0.0
    has_answered: bool = False


async def carry_out(recipe: Recipe, task: TaskToDo, tell: Tell, *, now_ms: Callable[[], int]) -> CarriedOut:
    """Cancelled, it leaves no process behind."""
    words = fill(recipe.words, task)
    if isinstance(words, TaskError):
        return CarriedOut(words)
    left = (task.deadline_ms - now_ms()) / 1000
    if left <= 0:
        return CarriedOut(TaskError(ErrorCode.TIMEOUT, "There was no time left when the agent got it."))
    seconds = min(left, recipe.time_limit)
    of_task = task_environment(task)
    command = Command(
        words=words,
        environment={**recipe.environment, **of_task.variables},
        directory=recipe.directory,
        # Where it is an argument it is not said a second time.
        input=b"" if PROMPT in placeholders(recipe.words) else task.prompt.encode("utf-8", "replace"),
        files=of_task.files,
    )
    ran = await run(command, ProcessLimits(seconds, recipe.max_output, recipe.grace), tell)
    outcome = answer(ran.ending, ran.output, ran.said, seconds)
    return CarriedOut(outcome, ran.ending, ran.seconds, bool(ran.output.text.strip()))
