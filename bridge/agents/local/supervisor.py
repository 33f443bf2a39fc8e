"""Runs one process of an agent, and ends all its descendants with the task or the node.

The node starts this file as a process of its own (`python -I -S supervisor.py SOCKET`, standard library
only). The supervisor starts the command in a new session and is the subreaper of its descendants: a process
whose parent ends becomes the supervisor's child, also from another session. When the command ends, when the
node sends `end`, and when the node itself ends, all descendants get SIGTERM, and SIGKILL after a grace
period.

The control socket carries one message per line. From the node: a plan in JSON, and later perhaps `end`; a
closed socket means that the node has ended. To the node: `started PID`, `refused STAGE ERRNO`, `ended STATUS`
(as in wait(2)), and `gone` when no descendant is left. The command's input and output do not pass through the
supervisor.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
MIN_POLL_INTERVAL, MAX_POLL_INTERVAL = 0.01, 1.0
"""Seconds between two checks of processes that have not ended yet."""
IGNORED_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
"""Ctrl-C and the closing of a terminal are handled by the node."""


def main(node: int) -> None:
    close_other_files({0, 1, 2, node})
    # `select` accepts no descriptor above 1,023, and a busy node has more open files.
    socket, node = node, os.dup(node)
    os.close(socket)
    plan = read_plan(node)
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken = wake_on_child()
    try:
        child = os.fork()
    except OSError as error:
        send_line(node, f"refused process {error.errno}")
    else:
        if child == 0:
            execute_command(plan, node)
        release_standard_streams()
        Supervisor(child, node, woken, plan["grace"]).run()
    remove_directory(plan["files"])
    send_line(node, "gone")


def read_plan(node: int) -> dict[str, Any]:
    """Read the plan: `words`, `environment`, `directory`, `grace` in seconds, and a directory of `files` that
    is removed at the end.

    The plan is not passed as an argument, because every user of the machine can read arguments.
    """
    text = bytearray()
    while not text.endswith(b"\n"):
        piece = os.read(node, 65536)
        if not piece:
            sys.exit("The node has ended.")
        text += piece
    plan: dict[str, Any] = json.loads(text)
    return plan


def execute_command(plan: dict[str, Any], node: int) -> NoReturn:
    """Execute the command in the child process. The kernel kills it if the supervisor is killed."""
    stage = "process"
    try:
        parent = os.getppid()
        os.setsid()
        signal.set_wakeup_fd(-1)
        # Python ignores some signals, and children inherit that: `yes | head` would report an error.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        stage = "directory"
        os.chdir(encode_argument(plan["directory"]))
        stage = "command"
        os.set_inheritable(node, False)
        words = [encode_argument(word) for word in plan["words"]]
        environment = {encode_argument(name): encode_argument(value) for name, value in plan["environment"].items()}
        send_line(node, f"started {os.getpid()}")
        os.execvpe(words[0], words, environment)  # noqa: S606 - this process becomes the command
    except OSError as error:
        send_line(node, f"refused {stage} {error.errno}")
    except ValueError:
        # The program's name is empty or contains NUL.
        send_line(node, f"refused {stage} {errno.ENOENT}")
    os._exit(1)


def encode_argument(text: str) -> bytes:
    """The bytes of a text from the node's environment. Characters that cannot be encoded become question
    marks."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Supervisor:
    def __init__(self, child: int, node: int, woken: int, grace: float) -> None:
        self._child = child
        self._node = node
        self._woken = woken
        self._grace = grace
        self._is_over = False

    def run(self) -> None:
        """Return when no descendant is left."""
        while self._reap() and not self._is_over:
            readable, _, _ = select.select([self._node, self._woken], [], [])
            drain_pipe(self._woken)
            if self._node in readable:  # `end`, or the node has ended
                break
        self._end_all()

    def _reap(self) -> bool:
        """Collect ended children. False if none is left; then there are no descendants either, as they would
        have become children."""
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if found == 0:
                return True
            if found == self._child:
                self._is_over = True
                send_line(self._node, f"ended {status}")

    def _end_all(self) -> None:
        kill_at = time.monotonic() + self._grace
        terminated: set[int] = set()
        pause = MIN_POLL_INTERVAL
        while self._reap():
            left = descendants(os.getpid())
            before_kill = kill_at - time.monotonic()
            if before_kill <= 0:
                send_signal(signal.SIGKILL, left)
            elif left - terminated:
                # Each process gets SIGTERM once. A stopped process must be continued to receive it.
                send_signal(signal.SIGTERM, left - terminated)
                send_signal(signal.SIGCONT, left - terminated)
                terminated |= left
                pause = MIN_POLL_INTERVAL
            # The end of a child wakes `select`; other descendants are checked at growing intervals.
            select.select([self._woken], [], [], min(pause, before_kill) if before_kill > 0 else pause)
            drain_pipe(self._woken)
            pause = min(2 * pause, MAX_POLL_INTERVAL)


def send_signal(number: int, processes: set[int]) -> None:
    for process in processes:
        # The process may have ended, or may now run as another user.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def descendants(ancestor: int) -> set[int]:
    """All descendants, found by the parent ids in /proc. Zombies are skipped."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - takes half the time with thousands of processes
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):  # the process may have ended
                state, parent = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(entry))
    found: set[int] = set()
    pending = [ancestor]
    while pending:
        direct = children.get(pending.pop(), [])
        found.update(direct)
        pending += direct
    return found


def wake_on_child() -> int:
    """A pipe that becomes readable when a child has ended."""
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return woken


def drain_pipe(pipe: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(pipe, 512):
            pass


def release_standard_streams() -> None:
    """Close the standard streams: the command and the node must each see when the other closes them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def close_other_files(wanted: set[int]) -> None:
    """Close the files and sockets inherited from the node. uvloop lets some pass."""
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above
        if int(entry) not in wanted:
            # The listing's own handle is in the list and already closed.
            with contextlib.suppress(OSError):
                os.close(int(entry))


def remove_directory(directory: str | None) -> None:
    if directory is not None:
        with contextlib.suppress(OSError):
            for file in Path(directory).iterdir():
                file.unlink()
            Path(directory).rmdir()


def send_line(node: int, word: str) -> None:
    # The node may have ended.
    with contextlib.suppress(OSError):
        os.write(node, f"{word}\n".encode())


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
