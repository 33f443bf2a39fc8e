"""The environment of the demonstration: configures two nodes, and starts, watches and stops programs."""

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
"""The command. A relative path is made absolute, because the demonstration runs it in another directory."""
WORKER = Path(__file__).resolve().parent / "demo_worker.py"
TIMEOUT = 120.0
"""Timeout of one step, in seconds. Most take less than one."""
STOP_TIMEOUT = 75.0
"""Timeout for stopping everything, in seconds. A node gives its database 45."""
HEARTBEAT, AGENT_TIMEOUT = 2, 8
FIRST_PORT = 7701

CONFIGURATION = """\
# {title}: one of the two nodes of Palaver's demonstration.
# `palaver config example` shows every other setting.

# The name of the node, a part of every address: {agent}@{name}. With a port in the name
# no DNS records are needed.
server_name = "{name}"

[listener]
port = {port}

[metrics]
enabled = false

[log]
format = "text"

# Instead of 256 MiB: the demonstration is small and short.
[database]
minimum_free_space = "16MiB"

# The defaults are 30 and 120 seconds. Shorter times show sooner that an agent is offline.
[agent_federation]
heartbeat_interval_secs = {heartbeat}
agent_timeout_secs = {silence}

# An agent of this node: any command, which is started for each task.
[[agents]]
id = "{agent}"
display_name = "{display_name}"
command = {command}

# The other node is not in this file: it is added while both run, with `palaver peers add`. These blocks
# would do the same, but need the other node's certificate when this node starts:
#
# [[agent_federation.peers]]
# node_id = "{peer}"
#
# [[peers]]
# server_name = "{peer}"
# authority = "../{peer_title}/data/tls/ca.pem"
"""


class DemoFailed(Exception):
    """A step failed. `log` is a file whose end may say why."""

    def __init__(self, sentence: str, log: Path | None = None) -> None:
        super().__init__(sentence)
        self.log = log


class Interrupted(Exception):
    """A signal asked the demonstration to stop."""


class SignalWatcher:
    """Records signals, and raises `Interrupted` only while the demonstration waits, so that steps are
    complete."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._handle)

    def _handle(self, number: int, _: FrameType | None) -> None:
        self.number = number

    def check(self) -> None:
        if self.number is not None:
            raise Interrupted

    def sleep(self, seconds: float) -> None:
        self.check()
        time.sleep(seconds)
        self.check()


class Node:
    """One of the two nodes: its files and its output."""

    def __init__(self, directory: Path, title: str, port: int, agent: str) -> None:
        self.title = title
        self.what = f"The node {title}"
        self.port = port
        self.name = f"localhost:{port}"
        self.agent = agent
        self.files = directory / title
        self.config = f"{title}/palaver.toml"
        self.log = self.files / "node.log"
        self.output = self.files / "node.out"
        self.events = self.files / "news.jsonl"

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
                silence=AGENT_TIMEOUT,
                peer=peer.name,
                peer_title=peer.title,
            ),
            "utf-8",
        )

    def find_event(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
        """The first matching event in the output of `palaver tail`."""
        for line in self.events.read_text("utf-8").splitlines(keepends=True):
            event: dict[str, Any] = json.loads(line) if line.endswith("\n") else {}
            if event.get("type") is not None and wanted(event):
                return event
        return None


class DemoEnvironment:
    """Starts the programs of the demonstration, and stops them by their process ids."""

    def __init__(self, directory: Path, signals: SignalWatcher) -> None:
        self.directory = directory
        self.is_finished = False
        self._signals = signals
        self._programs: list[subprocess.Popen[bytes]] = []
        self._running: dict[str, tuple[subprocess.Popen[bytes], Path]] = {}
        # All settings come from the configuration files.
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("PALAVER_")}
        # Tables are as wide as the terminal. The commands have none, so they get its width.
        self._environment.setdefault("COLUMNS", str(shutil.get_terminal_size((110, 24)).columns))
        self.choose_ports((0, 0))

    def choose_ports(self, ports: Sequence[int]) -> None:
        """Set the ports of the two nodes."""
        self.kitchen = Node(self.directory, "kitchen", ports[0], "cook")
        self.workshop = Node(self.directory, "workshop", ports[1], "carpenter")
        self.nodes = (self.kitchen, self.workshop)
        self.pairs = ((self.kitchen, self.workshop), (self.workshop, self.kitchen))

    def start(self, *words: str, out: Path | None = None, log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own: Ctrl-C on the terminal reaches only the demonstration."""
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
            problem = f"The command {PALAVER} cannot be run: {error.strerror}."
            raise DemoFailed(f"{problem} `make run` installs it.") from None
        finally:
            for stream in streams:
                if stream is not None:
                    stream.close()
        self._programs.append(program)
        return program

    def start_background(self, what: str, *words: str, out: Path, log: Path) -> subprocess.Popen[bytes]:
        """Start a program that must keep running. `what` names it in errors."""
        program = self.start(*words, out=out, log=log)
        self._running[what] = program, log
        return program

    def kill(self, what: str) -> int:
        """Kill a program with SIGKILL. Returns its process id."""
        program, _ = self._running.pop(what)
        program.kill()
        return program.pid

    def run(self, *words: str, expected: Sequence[int] = (0,)) -> None:
        """Print and run a command, and wait for its end."""
        print_command(*words)
        self.finish(self.start(*words), expected, words)

    def finish(self, program: subprocess.Popen[bytes], expected: Sequence[int], words: Sequence[str]) -> None:
        self.wait(lambda: program.poll() is not None, f"`palaver {shlex.join(words)}` did not come to an end.")
        self._programs.remove(program)
        if program.returncode not in expected:
            raise DemoFailed(f"`palaver {shlex.join(words)}` ended with code {program.returncode}.")

    def wait(self, happened: Callable[[], Any], problem: str, log: Path | None = None) -> Any:
        """Poll until `happened` returns a true value, and return it. Raises `DemoFailed` with `problem` on
        timeout."""
        until = time.monotonic() + TIMEOUT
        while not (found := happened()):
            self._check_running()
            if time.monotonic() > until:
                raise DemoFailed(f"{problem} The timeout is {TIMEOUT:g} seconds.", log)
            self._signals.sleep(0.1)
        return found

    def pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._signals.sleep(0.1)

    def wait_for_interrupt(self) -> None:
        """Wait for a signal."""
        self.is_finished = True
        while True:
            self._check_running()
            self._signals.sleep(0.2)

    def _check_running(self) -> None:
        for what, (program, log) in self._running.items():
            if program.poll() is not None:
                raise DemoFailed(f"{what} ended unexpectedly with code {program.returncode}.", log)

    def close(self) -> None:
        """Stop everything, the nodes last, so that attached agents can unregister. Signals are ignored
        here."""
        nodes = [self._running[one.what][0] for one in self.nodes if one.what in self._running]
        stop_programs([one for one in self._programs if one not in nodes])
        stop_programs(nodes)


def stop_programs(programs: Sequence[subprocess.Popen[bytes]]) -> None:
    """Stop programs. An agent finishes its task after the first SIGTERM, and ends it after the second."""
    for number, timeout in ((signal.SIGTERM, 2.0), (signal.SIGTERM, STOP_TIMEOUT), (signal.SIGKILL, 10.0)):
        until = time.monotonic() + timeout
        for program in programs:
            if program.poll() is None:
                program.send_signal(number)
        while any(program.poll() is None for program in programs) and time.monotonic() < until:
            time.sleep(0.05)


def print_lines(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)


def print_command(*words: str) -> None:
    print_lines(f"$ palaver {shlex.join(words)}")


def last_lines(log: Path, count: int = 15) -> list[str]:
    try:
        return log.read_text("utf-8", "replace").splitlines()[-count:]
    except OSError:
        return []


def free_ports() -> tuple[int, int]:
    """Two free ports, the same ones at each run if possible."""
    found: list[int] = []
    for port in range(FIRST_PORT, FIRST_PORT + 200):
        if is_free(port):
            found.append(port)
        if len(found) == 2:
            return found[0], found[1]
    raise DemoFailed(f"No two ports are free from {FIRST_PORT} on. Choose two with --ports.")


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
