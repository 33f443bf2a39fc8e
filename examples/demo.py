"""`make demo`: two nodes on this machine, agents on both, a task across, and an agent that dies.

It does what a person would do, with the command `palaver` and two configuration files that it writes, and
shows it. On a terminal the nodes stay until Ctrl-C, so that one can look around; elsewhere, and with
`--once`, they are stopped at the end of the story. Nothing is left behind, unless `--keep` says so.
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

from demo_stage import (
    PALAVER,
    SILENCE,
    WORKER,
    Failed,
    Leave,
    Leaving,
    Node,
    Stage,
    free_ports,
    last_lines,
    say,
    show_command,
)

AGENT_NOT_FOUND, NODE_UNREACHABLE = 121, 123
"""With these codes `palaver task send` ends then; `palaver task send --help` has them all."""
VISITOR = "The program that is the visitor"


def nodes_start(stage: Stage) -> None:
    title("1. Two nodes, from nothing")
    began = time.monotonic()
    for node, peer in stage.pairs:
        node.write(peer)
        show_command("run", "-c", node.config)
        stage.start_to_stay(node.what, "run", "-c", node.config, out=node.said, log=node.log)
    for node in stage.nodes:
        stage.wait(
            lambda node=node: "is running as" in node.said.read_text("utf-8"),  # type: ignore[misc]
            f"{node.what} did not start.",
            node.log,
        )
    say(
        f"Both run after {time.monotonic() - began:.1f} seconds: the kitchen is {stage.kitchen.name},"
        f" the workshop {stage.workshop.name}.",
        "Each has made its own key, certificate and Postgres, and has an agent. Neither knows of the other.",
    )


def nodes_meet(stage: Stage) -> None:
    title("2. They are told of each other")
    for node in stage.nodes:
        watching = f"`palaver tail` in the {node.title}"
        stage.start_to_stay(watching, "tail", "--json", "-c", node.config, out=node.news, log=node.news)
        stage.wait(
            lambda node=node: node.heard(lambda said: said["type"] == "listening"),  # type: ignore[misc]
            f"{watching} did not begin.",
            node.news,
        )
    for node, peer in stage.pairs:
        authority = f"{peer.title}/data/tls/ca.pem"
        stage.run("peers", "add", peer.name, "--authority", authority, "-c", node.config)
    began = time.time()
    seen = max(came(stage, node, f"{peer.agent}@{peer.name}") for node, peer in stage.pairs)
    say(f"{max(0.0, seen - began):.1f} seconds later each of them knew the other's agent.")


def agent_attaches(stage: Stage) -> None:
    title("3. A third agent: a program that runs beside the workshop, and could be on any machine")
    workshop = stage.workshop
    visitor, token = f"visitor@{workshop.name}", "workshop/visitor.token"
    stage.run("agents", "token", "create", "visitor", "--file", token, "-c", workshop.config)
    # Its steps take so long that there is time to see it die.
    words = ("agent", "run", "--id", "visitor", "--token-file", token, "-c", workshop.config, "--")
    command = (sys.executable, str(WORKER), "10")
    show_command(*words, "python3", "demo_worker.py", "10")
    log = workshop.files / "visitor.log"
    stage.start_to_stay(VISITOR, *words, *command, out=log, log=log)
    took = came(stage, stage.kitchen, visitor) - came(stage, workshop, visitor)
    say(f"The kitchen knew of it {max(0.0, took):.2f} seconds after the workshop.")
    stage.run("agents", "list", "-c", stage.kitchen.config)


def task_goes_across(stage: Stage) -> None:
    title("4. A task for the workshop, given in the kitchen")
    carpenter = f"carpenter@{stage.workshop.name}"
    stage.run("route", carpenter, "-c", stage.kitchen.config)
    prompt = "How many words does it take to build a table?"
    stage.run("task", "send", carpenter, prompt, "-c", stage.kitchen.config)
    say("The reports on the way and the answer came from the other node.")


def agent_dies(stage: Stage) -> None:
    title("5. An agent dies in the middle of a task")
    kitchen, visitor = stage.kitchen, f"visitor@{stage.workshop.name}"
    words = ("task", "send", visitor, "Take your time.", "-c", kitchen.config)
    show_command(*words)
    asking = stage.start(*words)
    stage.wait(
        lambda: kitchen.heard(lambda said: said["type"] == "progress" and said["to"] == visitor),
        f"{visitor} did not begin with its task.",
        stage.workshop.files / "visitor.log",
    )
    stage.pause(1.0)  # so that one can see that it works
    killed = time.time()
    say(f"$ kill -9 {stage.kill(VISITOR)}    (the program that is {visitor})")
    # Whichever is noticed first: that nobody works on the task any more, or that the agent is gone.
    stage.finish(asking, (NODE_UNREACHABLE, AGENT_NOT_FOUND), words)
    gone = stage.wait(
        lambda: kitchen.heard(lambda said: says_of_agent(said, "went", visitor)),
        f"That {visitor} is gone was not noticed.",
        stage.workshop.log,
    )
    after = gone["at"] / 1000 - killed
    say(
        f"Nobody said goodbye. When the workshop had heard nothing for {SILENCE} seconds, it took the agent",
        f"for gone and told the kitchen: {after:.1f} seconds after the kill. The task failed, and is not",
        "begun again: how far it had got is not known, so whoever asked is to decide.",
    )
    stage.run("route", visitor, "-c", kitchen.config, expected=(1,))


def look_around(stage: Stage) -> None:
    palaver = shlex.quote(from_here(PALAVER))
    carpenter, cook = f"carpenter@{stage.workshop.name}", f"cook@{stage.kitchen.name}"
    token = shlex.quote(str(stage.workshop.files / "visitor.token"))
    title("Both nodes stay. Look around, in another terminal:")
    say(
        f"  export PALAVER_CONFIG={at(stage, stage.kitchen)}",
        f"  {palaver} tail                       # what happens, as it happens",
        f"  {palaver} agents show {carpenter}",
        f"  {palaver} task send {cook} 'Good morning'",
        f"  {palaver} task list",
        f"  {palaver} peers check {stage.workshop.name}",
        f"  {palaver} audit                      # what the two servers asked of each other",
        "The other node, to which the visitor comes back:",
        f"  export PALAVER_CONFIG={at(stage, stage.workshop)}",
        f"  {palaver} agent run --id visitor --token-file {token} -- wc -w",
        "",
        "Ctrl-C stops both nodes and removes their directory.",
    )
    stage.stay()


# ---- small things ------------------------------------------------------------------------------------


def came(stage: Stage, node: Node, address: str) -> float:
    """When a node first knew of an agent, in seconds since 1970."""
    event: dict[str, Any] = stage.wait(
        lambda: node.heard(lambda said: says_of_agent(said, "came", address)),
        f"{node.what} did not hear of {address}.",
        node.log,
    )
    return float(event["at"]) / 1000


def at(stage: Stage, node: Node) -> str:
    return shlex.quote(str(stage.directory / node.config))


def says_of_agent(said: dict[str, Any], what: str, address: str) -> bool:
    return said["type"] == "agent" and (said["what"], said["agent"]) == (what, address)


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def from_here(command: str) -> str:
    """As it can be typed in the directory that this was started in."""
    path = Path(command)
    is_below = path.is_absolute() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if is_below else command


def tell(stage: Stage, *, stays: bool) -> None:
    nodes_start(stage)
    nodes_meet(stage)
    agent_attaches(stage)
    task_goes_across(stage)
    agent_dies(stage)
    if stays:
        look_around(stage)


def explain(failed: Failed) -> None:
    say("", f"The demonstration failed. {failed}")
    if failed.log is not None and (lines := last_lines(failed.log)):
        say(f"The end of {failed.log}:", *(f"  {line}" for line in lines))


def main() -> int:
    parser = argparse.ArgumentParser(description="Two nodes, three agents, a task across, and a death.")
    parser.add_argument("--once", action="store_true", help="stop the nodes at the end, on a terminal too")
    parser.add_argument("--keep", action="store_true", help="leave the directory where it is")
    parser.add_argument("--ports", nargs=2, type=int, metavar="PORT", help="else two that are free")
    options = parser.parse_args()
    leaving = Leaving()
    directory = Path(tempfile.mkdtemp(prefix="palaver-demo-"))
    stage = Stage(directory, leaving)
    try:
        say(f"Two Palaver nodes on this machine, in {directory}.")
        stage.settle(options.ports or free_ports())
        tell(stage, stays=sys.stdout.isatty() and not options.once)
    except Leave:
        return 0 if stage.is_at_its_end else 130
    except Failed as failed:
        explain(failed)
        return 1
    finally:
        with contextlib.suppress(OSError):
            say("", "Stopping both nodes …")
        stage.close()
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
        with contextlib.suppress(OSError):
            say(f"Everything is stopped{f', and in {directory}' if options.keep else ' and removed'}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
