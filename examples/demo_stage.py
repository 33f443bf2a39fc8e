"""The stage of the demonstration: two nodes and what else is started, followed, and stopped again."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

_NAMED = os.environ.get("PALAVER", "palaver")
PALAVER = str(Path(_NAMED).absolute()) if "/" in _NAMED else _NAMED
"""It is run in another directory than this one."""
WORKER = Path(__file__).resolve().parent / "demo_worker.py"
TIMEOUT = 120.0
"""Seconds for one step, at most. Most take less than one."""
LAST_PATIENCE = 75.0
"""Seconds for everything to end; a node gives its database 45."""
HEARTBEAT, SILENCE = 2, 8
FIRST_PORT = 7701

CONFIGURATION = """\
# {title}: one of the two nodes of Palaver's demonstration.
# `palaver config example` shows every other setting.

# The name of the node, a part of every address: {agent}@{name}. A name with a port in it
# leads there without any DNS.
server_name = "{name}"

[listener]
port = {port}

[metrics]
enabled = false

[log]
format = "text"

# Instead of 256 MiB: the demonstration is small, and soon gone.
[database]
minimum_free_space = "16MiB"

# Left out these are 30 and 120 seconds; but nobody wants to wait that long here to see that an agent is gone.
[agent_federation]
heartbeat_interval_secs = {heartbeat}
agent_timeout_secs = {silence}

# An agent of this node: a command, started anew for each task. Any command will do.
[[agents]]
id = "{agent}"
display_name = "{display_name}"
command = {command}

# The other node is not in this file: it is named while both run, with `palaver peers add`. These blocks would
# do the same (and need the other node's certificate when this one starts):
#
# [[agent_federation.peers]]
# node_id = "{peer}"
#
# [[peers]]
# server_name = "{peer}"
# authority = "../{peer_title}/data/tls/ca.pem"
"""


class Failed(Exception):
    """What went wrong, in a sentence. `log` is a file whose end may say why."""

    def __init__(self, sentence: str, log: Path | None = None) -> None:
        super().__init__(sentence)
        self.log = log


class Leave(Exception):
    """Somebody does not want to see more."""


class Leaving:
    """Signals are only written down; who waits looks here, so that no step is left half done."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._asked)

    def _asked(self, number: int, _: FrameType | None) -> None:
        self.number = number

    def look(self) -> None:
        if self.number is not None:
            raise Leave

    def sleep(self, seconds: float) -> None:
        self.look()
        time.sleep(seconds)
        self.look()


class Node:
    """One of the two: where its files are, and what it said."""

    def __init__(self, directory: Path, title: str, port: int, agent: str) -> None:
        self.title = title
        self.what = f"The node {title}"
        self.port = port
        self.name = f"localhost:{port}"
        self.agent = agent
        self.files = directory / title
        self.config = f"{title}/palaver.toml"
        self.log = self.files / "node.log"
        self.said = self.files / "node.said"
        self.news = self.files / "news.jsonl"

    def write(self, peer: Node) -> None:
        self.files.mkdir()
        (self.files / "palaver.toml").write_text(
            CONFIGURATION.format(
                title=self.title,
                name=self.name,
                port=self.port,
                agent=self.agent,
                display_name=f"The {self.agent}",
                command=json.dumps([sys.executable, str(WORKER)], ensure_ascii=False),
                heartbeat=HEARTBEAT,
                silence=SILENCE,
                peer=peer.name,
                peer_title=peer.title,
            ),
            "utf-8",
        )

    def heard(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """The first of the events that `palaver tail` has shown which is wanted."""
        for line in self.news.read_text("utf-8").splitlines(keepends=True):
            said: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
            if said.get("type") is not None and wanted(said):
                return said
        return None


class Stage:
    """Where everything happens. What is started here is stopped here, by its process id."""

    def __init__(self, directory: Path, leaving: Leaving) -> None:
        self.directory = directory
        self.is_at_its_end = False
        self._leaving = leaving
        self._programs: list[subprocess.Popen[bytes]] = []
        self._staying: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        # The settings come from the files alone.
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")
        }
        # Tables are as wide as the terminal; elsewhere there is none to ask.
        self._environment.setdefault("COLUMNS", str(shutil.get_terminal_size((110, 24)).columns))
        self.settle((0, 0))

    def settle(self, ports: Sequence[int]) -> None:
        """Where the nodes are to be."""
        self.kitchen = Node(self.directory, "kitchen", ports[0], "cook")
        self.workshop = Node(self.directory, "workshop", ports[1], "carpenter")
        self.nodes = (self.kitchen, self.workshop)
        self.pairs = ((self.kitchen, self.workshop), (self.workshop, self.kitchen))

    def start(self, *words: str, out: Path | None = None, log: Path | None = None) -> subprocess.Popen[bytes]:
        """A command. Ctrl-C on the terminal is ours alone to hear: it is in a session of its own."""
        streams: list[Any] = [None if file is None else file.open("ab") for file in (out, log)]
        try:
            program = subprocess.Popen(
                [PALAVER, *words],
                cwd=self.directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=streams[0],
                stderr=streams[1],
                start_new_session=True,
            )
        except OSError as error:
            problem = f"The command {PALAVER} can't be run: {error.strerror}."
            raise Failed(f"{problem} `make run` installs it.") from None
        finally:
            for stream in streams:
                if stream is not None:
                    stream.close()
        self._programs.append(program)
        return program

    def start_to_stay(self, what: str, *words: str, out: Path, log: Path) -> subprocess.Popen[bytes]:
        """One that is not to end before it is ended. `what` it is: a node, …"""
        program = self.start(*words, out=out, log=log)
        self._staying[what] = program, log
        return program

    def kill(self, what: str) -> int:
        """`kill -9`; gives the process id."""
        program, _ = self._staying.pop(what)
        program.kill()
        return program.pid

    def run(self, *words: str, expected: Sequence[int] = (0,)) -> None:
        """A command, shown with what it says."""
        show_command(*words)
        self.finish(self.start(*words), expected, words)

    def finish(self, program: subprocess.Popen[bytes], expected: Sequence[int], words: Sequence[str]) -> None:
        self.wait(
            lambda: program.poll() is not None, f"`palaver {shlex.join(words)}` did not come to an end."
        )
        self._programs.remove(program)
        if program.returncode not in expected:
            raise Failed(f"`palaver {shlex.join(words)}` ended with code {program.returncode}.")

    def wait(self, happened: Callable[[], Any], otherwise: str, log: Path | None = None) -> Any:
        """What has happened, as soon as it is something; or in the end `Failed`, with the sentence."""
        until = time.monotonic() + TIMEOUT
        while not (found := happened()):
            self._look_whether_all_stay()
            if time.monotonic() > until:
                raise Failed(f"{otherwise} That was waited for {TIMEOUT:g} seconds.", log)
            self._leaving.sleep(0.1)
        return found

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._leaving.sleep(0.1)

    def stay(self) -> None:
        """Until somebody has seen enough."""
        self.is_at_its_end = True
        while True:
            self._look_whether_all_stay()
            self._leaving.sleep(0.2)

    def _look_whether_all_stay(self) -> None:
        for what, (program, log) in self._staying.items():
            if program.poll() is not None:
                raise Failed(f"{what} ended by itself, with code {program.returncode}.", log)

    def close(self) -> None:
        """Nodes last: what is attached to them says goodbye. No signal cuts it short."""
        nodes = [self._staying[one.what][0] for one in self.nodes if one.what in self._staying]
        end([one for one in self._programs if one not in nodes])
        end(nodes)


def end(programs: Sequence[subprocess.Popen[bytes]]) -> None:
    """An agent that is asked once finishes its task; asked twice, it ends that too."""
    for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGTERM, LAST_PATIENCE), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + patience
        for program in programs:
            if program.poll() is None:
                program.send_signal(number)
        while any(program.poll() is None for program in programs) and time.monotonic() < until:
            time.sleep(0.05)


def say(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def show_command(*words: str) -> None:
    say(f"$ palaver {shlex.join(words)}")


def last_lines(log: Path, count: int = 15) -> list[str]:
    try:
        return log.read_text("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []


def free_ports() -> tuple[int, int]:
    """The same ones each time, if nobody else has them: that reads better."""
    found: list[int] = []
    for port in range(FIRST_PORT, FIRST_PORT + 200):
        if is_free(port):
            found.append(port)
        if len(found) == 2:
            return found[0], found[1]
    raise Failed(f"No two ports are free from {FIRST_PORT} on. Name two others with --ports.")


def is_free(port: int) -> bool:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True
