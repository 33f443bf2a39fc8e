"""Stands between the node and one process of an agent, so that nothing of it outlives its task or the node.

The node runs this file as a process of its own (`python -I -S warden.py SOCKET`, standard library
only). It starts the command in a session of its own and adopts whatever that leaves behind: a descendant
whose parent ends becomes the warden's child, also one that has gone into another session. When the command
ends, when the node says so, and when the node itself is gone, all of them are ended: asked first, and after a
while killed.

Words go through a socket, one a line. From the node: a plan in JSON, and later perhaps `end`; its end of the
socket closed is the end of the node. To the node: `started PID`, `refused STAGE ERRNO`, `ended STATUS` (as
wait(2) has it), and `gone` when nothing is left. Input and output of the command do not pass through here.
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
SHORTEST, LONGEST = 0.01, 1.0
"""Seconds between two looks at what does not want to end."""
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE)
"""Ctrl-C and a terminal that closes are the node's to deal with."""


def main(node: int) -> None:
    keep_only({0, 1, 2, node})
    # `select` takes no number above 1,023, and a busy node has more files open.
    socket, node = node, os.dup(node)
    os.close(socket)
    plan = read_plan(node)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken = wake_on_child()
    try:
        child = os.fork()
    except OSError as error:
        say(node, f"refused process {error.errno}")
    else:
        if child == 0:
            become(plan, node)
        let_go_of_input_and_output()
        Warden(child, node, woken, plan["grace"]).run()
    remove(plan["files"])
    say(node, "gone")


def read_plan(node: int) -> dict[str, Any]:
    """`words`, `environment`, `directory`, `grace` in seconds, and a directory of `files` to remove in the
    end.

    None of it is an argument of this program: everybody on the machine can read those.
    """
    text = bytearray()
    while not text.endswith(b"\n"):
        piece = os.read(node, 65536)
        if not piece:
            sys.exit("The node has ended.")
        text += piece
    plan: dict[str, Any] = json.loads(text)
    return plan


def become(plan: dict[str, Any], node: int) -> NoReturn:
    """The command. It dies with the warden, should that be killed."""
    stage = "process"
    try:
        parent = os.getppid()
        os.setsid()
        signal.set_wakeup_fd(-1)
        # Python itself ignores some, and what is ignored is inherited: `yes | head` would complain.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        stage = "directory"
        os.chdir(raw(plan["directory"]))
        stage = "command"
        os.set_inheritable(node, False)
        words = [raw(word) for word in plan["words"]]
        environment = {raw(name): raw(value) for name, value in plan["environment"].items()}
        say(node, f"started {os.getpid()}")
        os.execvpe(words[0], words, environment)  # noqa: S606 - to become it is what this is for
    except OSError as error:
        say(node, f"refused {stage} {error.errno}")
    except ValueError:
        # A name that no program can have: it is empty, or holds a NUL.
        say(node, f"refused {stage} {errno.ENOENT}")
    os._exit(1)


def raw(text: str) -> bytes:
    """As it was in the node's environment; of what no text can be, a question mark is left."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


class Warden:
    def __init__(self, child: int, node: int, woken: int, grace: float) -> None:
        self._child = child
        self._node = node
        self._woken = woken
        self._grace = grace
        self._is_over = False

    def run(self) -> None:
        """Returns when there is no descendant left."""
        while self._reap() and not self._is_over:
            readable, _, _ = select.select([self._node, self._woken], [], [])
            drain(self._woken)
            if self._node in readable:  # `end`, or the end of the node
                break
        self._end_all()

    def _reap(self) -> bool:
        """Whether anybody is left. Without children there are no descendants: they would have become some."""
        while True:
            try:
                found, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if found == 0:
                return True
            if found == self._child:
                self._is_over = True
                say(self._node, f"ended {status}")

    def _end_all(self) -> None:
        kill_at = time.monotonic() + self._grace
        asked: set[int] = set()
        pause = SHORTEST
        while self._reap():
            left = descendants(os.getpid())
            before_kill = kill_at - time.monotonic()
            if before_kill <= 0:
                send(signal.SIGKILL, left)
            elif left - asked:
                # Each once. One that was stopped has to go on, or it would not hear of it.
                send(signal.SIGTERM, left - asked)
                send(signal.SIGCONT, left - asked)
                asked |= left
                pause = SHORTEST
            # Whoever ends is heard of; others are looked at again, less and less often.
            select.select([self._woken], [], [], min(pause, before_kill) if before_kill > 0 else pause)
            drain(self._woken)
            pause = min(2 * pause, LONGEST)


def send(number: int, processes: set[int]) -> None:
    for process in processes:
        # It may have ended; and one that runs as somebody else now is out of our reach.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def descendants(ancestor: int) -> set[int]:
    """All of them, found by who is whose parent. A zombie, which waits for its parent, is none."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - half the time, for each of thousands
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError):  # it may be gone before it is looked at
                state, parent = Path(f"/proc/{entry}/stat").read_bytes().rpartition(b")")[2].split()[:2]
                if state not in (b"Z", b"X"):
                    children.setdefault(int(parent), []).append(int(entry))
    found: set[int] = set()
    looked_at = [ancestor]
    while looked_at:
        of_one = children.get(looked_at.pop(), [])
        found.update(of_one)
        looked_at += of_one
    return found


def wake_on_child() -> int:
    """A pipe in which there is something whenever a child has ended."""
    woken, wakes = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return woken


def drain(pipe: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(pipe, 512):
            pass


def let_go_of_input_and_output() -> None:
    """They are the command's: both it and the node must see the end of the other."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)


def keep_only(wanted: set[int]) -> None:
    """Of the node's files and sockets this process needs none; uvloop lets copies of some pass."""
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - as above
        if int(entry) not in wanted:
            # The directory's own handle is in the list and closed already.
            with contextlib.suppress(OSError):
                os.close(int(entry))


def remove(directory: str | None) -> None:
    if directory is not None:
        with contextlib.suppress(OSError):
            for file in Path(directory).iterdir():
                file.unlink()
            Path(directory).rmdir()


def say(node: int, word: str) -> None:
    # Nobody may be there any more.
    with contextlib.suppress(OSError):
        os.write(node, f"{word}\n".encode())


def prctl(option: int, value: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
