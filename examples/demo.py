"""`make demo`: two nodes on this machine, agents on both, a task from one node to the other, and an agent
that is killed.

It runs the command `palaver` with two configuration files that it writes, as a person would, and prints each
command. On a terminal the nodes keep running until Ctrl-C, so that you can try more commands; otherwise, and
with `--once`, they are stopped at the end. Everything is removed, unless `--keep` is given.
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from demo_environment import (
    AGENT_TIMEOUT,
    PALAVER,
    WORKER,
    DemoEnvironment,
    DemoFailed,
    Interrupted,
    Node,
    SignalWatcher,
    free_ports,
    last_lines,
    print_command,
    print_lines,
)

AGENT_NOT_FOUND, NODE_UNREACHABLE = 121, 123
"""Exit codes of `palaver task send`; `palaver task send --help` lists all of them."""
VISITOR_PROGRAM = "The program of the visitor"


def start_nodes(demo: DemoEnvironment) -> None:
    title("1. Two nodes, from nothing")
    began = time.monotonic()
    for node, peer in demo.pairs:
        node.write(peer)
        print_command("run", "-c", node.config)
        demo.start_background(node.what, "run", "-c", node.config, out=node.output, log=node.log)
    for node in demo.nodes:
        demo.wait(
            lambda node=node: "is running as" in node.output.read_text("utf-8"),  # type: ignore[misc]
            f"{node.what} did not start.",
            node.log,
        )
    print_lines(
        f"Both run after {time.monotonic() - began:.1f} seconds: the kitchen is {demo.kitchen.name},"
        f" the workshop {demo.workshop.name}.",
        "Each has created its own key, certificate and Postgres, and has an agent. They are not peers yet.",
    )


def connect_nodes(demo: DemoEnvironment) -> None:
    title("2. Each node is added to the other as a peer")
    for node in demo.nodes:
        tail = f"`palaver tail` of the node {node.title}"
        demo.start_background(tail, "tail", "--json", "-c", node.config, out=node.events, log=node.events)
        demo.wait(
            lambda node=node: node.find_event(lambda event: event["type"] == "listening"),  # type: ignore[misc]
            f"{tail} did not start.",
            node.events,
        )
    for node, peer in demo.pairs:
        authority = f"{peer.title}/data/tls/ca.pem"
        demo.run("peers", "add", peer.name, "--authority", authority, "-c", node.config)
    began = time.time()
    seen = max(wait_for_agent(demo, node, f"{peer.agent}@{peer.name}") for node, peer in demo.pairs)
    print_lines(f"{max(0.0, seen - began):.1f} seconds later each of them knew the other's agent.")


def attach_agent(demo: DemoEnvironment) -> None:
    title("3. A third agent: a program that attaches itself to the workshop, from this or any machine")
    workshop = demo.workshop
    visitor, token = f"visitor@{workshop.name}", "workshop/visitor.token"
    demo.run("agents", "token", "create", "visitor", "--file", token, "-c", workshop.config)
    # Long steps, so that it can be killed in the middle of a task.
    words = ("agent", "run", "--id", "visitor", "--token-file", token, "-c", workshop.config, "--")
    command = (sys.executable, str(WORKER), "10")
    print_command(*words, "python3", "demo_worker.py", "10")
    log = workshop.files / "visitor.log"
    demo.start_background(VISITOR_PROGRAM, *words, *command, out=log, log=log)
    took = wait_for_agent(demo, demo.kitchen, visitor) - wait_for_agent(demo, workshop, visitor)
    print_lines(f"The kitchen knew the agent {max(0.0, took):.2f} seconds after the workshop.")
    demo.run("agents", "list", "-c", demo.kitchen.config)


def send_task(demo: DemoEnvironment) -> None:
    title("4. A task from the kitchen to an agent of the workshop")
    carpenter = f"carpenter@{demo.workshop.name}"
    demo.run("route", carpenter, "-c", demo.kitchen.config)
    prompt = "How many words does it take to build a table?"
    demo.run("task", "send", carpenter, prompt, "-c", demo.kitchen.config)
    print_lines("The progress and the answer came from the other node.")


def kill_agent(demo: DemoEnvironment) -> None:
    title("5. An agent is killed during a task")
    kitchen, visitor = demo.kitchen, f"visitor@{demo.workshop.name}"
    words = ("task", "send", visitor, "Take your time.", "-c", kitchen.config)
    print_command(*words)
    sending = demo.start(*words)
    demo.wait(
        lambda: kitchen.find_event(lambda event: event["type"] == "progress" and event["to"] == visitor),
        f"{visitor} did not start its task.",
        demo.workshop.files / "visitor.log",
    )
    demo.pause(1.0)  # so that its progress is visible
    killed = time.time()
    print_lines(f"$ kill -9 {demo.kill(VISITOR_PROGRAM)}    (the program of {visitor})")
    # The expired lease of the task and the lost agent give different codes. Either may be detected first.
    demo.finish(sending, (NODE_UNREACHABLE, AGENT_NOT_FOUND), words)
    offline = demo.wait(
        lambda: kitchen.find_event(lambda event: is_agent_event(event, "went", visitor)),
        f"The kitchen did not detect that {visitor} is offline.",
        demo.workshop.log,
    )
    after = offline["at"] / 1000 - killed
    print_lines(
        f"The agent did not unregister. After {AGENT_TIMEOUT} s without a heartbeat the workshop marked it",
        f"offline and notified the kitchen: {after:.1f} seconds after the kill. The task failed and is not",
        "restarted, because it is not known how far it got: the requester decides what to do.",
    )
    demo.run("route", visitor, "-c", kitchen.config, expected=(1,))


def suggest_commands(demo: DemoEnvironment) -> None:
    palaver = shlex.quote(shorten_path(PALAVER))
    carpenter, cook = f"carpenter@{demo.workshop.name}", f"cook@{demo.kitchen.name}"
    token = shlex.quote(str(demo.workshop.files / "visitor.token"))
    title("Both nodes keep running. Look around, in another terminal:")
    print_lines(
        f"  export PALAVER_CONFIG={at(demo, demo.kitchen)}",
        f"  {palaver} tail                       # what happens, as it happens",
        f"  {palaver} agents show {carpenter}",
        f"  {palaver} task send {cook} 'Good morning'",
        f"  {palaver} task list",
        f"  {palaver} peers check {demo.workshop.name}",
        f"  {palaver} audit                      # requests between the two servers",
        "For the other node, to which the visitor attaches itself again:",
        f"  export PALAVER_CONFIG={at(demo, demo.workshop)}",
        f"  {palaver} agent run --id visitor --token-file {token} -- wc -w",
        "",
        "Ctrl-C stops both nodes and removes their directory.",
    )
    demo.wait_for_interrupt()


# ---- helpers -----------------------------------------------------------------------------------------


def wait_for_agent(demo: DemoEnvironment, node: Node, address: str) -> float:
    """Wait until a node knows an agent; returns the time, in seconds since 1970."""
    event: dict[str, Any] = demo.wait(
        lambda: node.find_event(lambda event: is_agent_event(event, "came", address)),
        f"{node.what} did not learn of {address}.",
        node.log,
    )
    return float(event["at"]) / 1000


def at(demo: DemoEnvironment, node: Node) -> str:
    return shlex.quote(str(demo.directory / node.config))


def is_agent_event(event: dict[str, Any], what: str, address: str) -> bool:
    return event["type"] == "agent" and (event["what"], event["agent"]) == (what, address)


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def shorten_path(command: str) -> str:
    """The command relative to the current directory, if it is below."""
    path = Path(command)
    is_below = path.is_absolute() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_below else command


def run_demo(demo: DemoEnvironment, *, interactive: bool) -> None:
    start_nodes(demo)
    connect_nodes(demo)
    attach_agent(demo)
    send_task(demo)
    kill_agent(demo)
    if interactive:
        suggest_commands(demo)


def explain(failed: DemoFailed) -> None:
    print_lines("", f"The demonstration failed. {failed}")
    if failed.log is not None and (lines := last_lines(failed.log)):
        print_lines(f"The end of {failed.log}:", *(f"  {line}" for line in lines))


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Two nodes, three agents, a task between the nodes, and a killed agent."
    )
    parser.add_argument("--once", action="store_true", help="stop the nodes at the end, on a terminal too")
    parser.add_argument("--keep", action="store_true", help="keep the directory")
    parser.add_argument(
        "--ports", nargs=2, type=int, metavar="PORT", help="the ports of the two nodes (default: free ones)"
    )
    options = parser.parse_args()
    signals = SignalWatcher()
    directory = Path(tempfile.mkdtemp(prefix="palaver-demo-"))
    demo = DemoEnvironment(directory, signals)
    try:
        print_lines(f"Two Palaver nodes on this machine, in {directory}.")
        demo.choose_ports(options.ports or free_ports())
        run_demo(demo, interactive=sys.stdout.isatty() and not options.once)
    except Interrupted:
        return 0 if demo.is_finished else 130
    except DemoFailed as failed:
        explain(failed)
        return 1
    finally:
        with contextlib.suppress(OSError):
            print_lines("", "Stopping both nodes …")
        demo.close()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            print_lines(f"Everything is stopped{f', and in {directory}' if options.keep else ' and removed'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
