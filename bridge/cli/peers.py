"""`palaver peers`: the servers with which the running node federates, and the nodes with which it exchanges
agents."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, lines, table
from bridge.cli.queue import next_attempt, state
from bridge.clock import now_ms
from bridge.peers.authority import MAX_BYTES, read_authority
from bridge.peers.peer import PeerProfile
from bridge.text.times import ago, duration
from storage.errors import LocalError

# Seconds. With a server that does not answer, every step of the check runs into its timeout.
CHECK_TIMEOUT = 300.0
MARKS = {"fine": ("✓", "green"), "warning": ("!", "yellow"), "fault": ("✗", "red")}
SUMMARIES = {
    "fine": "No problems found with {}.",
    "warning": "{} may work. Look at the findings marked with !.",
    "fault": "{} does not work. Begin with the first finding marked with ✗.",
}

app = typer.Typer(
    help="Show the servers with which the running node federates, and choose those that exchange agents.",
    no_args_is_help=True,
)

Node = Annotated[str, typer.Argument(help="The node's server name: its agents are agent@name.", show_default=False)]


@app.command("list")
def list_(
    search: Annotated[str | None, typer.Option("--search", help="Only servers whose name contains this text.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Maximum number of servers.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List the servers with their queues and when they were last reached; failing servers first. A second
    list shows the nodes that exchange agents, and whether they are trusted.

    Example: palaver peers list --search kitchen"""
    answer = ask(path, "peers-list", search=search, limit=limit)
    Output(as_json=as_json).show(answer, lambda console: _list(console, answer))


def _list(console: Console, answer: Mapping[str, Any]) -> None:
    _servers(console, answer)
    if answer.get("agent_peers"):
        console.print()
        _agent_peers(console, answer["agent_peers"])


def _agent_peers(console: Console, peers: Sequence[Mapping[str, Any]]) -> None:
    made = table("exchanges agents", "trusted", "profile", "from", "url", "namespaces")
    for peer in peers:
        trusted = Text("yes" if peer["trusted"] else "no", "" if peer["trusted"] else "red")
        source = f"{peer['from']}, trust changed" if peer["overridden"] else peer["from"]
        url = peer["url"] or "discovered by name"
        add(made, peer["node_id"], trusted, peer["profile"], source, url, peer["namespaces"] or "the first")
    console.print(made)


def _servers(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["peers"]:
        console.print("No other server is known.")
        return
    made = table(
        "server", "known from", "state", "queued", "lag", "next attempt", "reached", "last request",
        "last failure",
    )  # fmt: skip
    for peer in answer["peers"]:
        reached, request = (ago(peer[name], now_ms()) for name in ("reached_at", "heard_at"))
        queued = f"{peer['pdus']} + {peer['edus']}" if peer["pdus"] or peer["edus"] else None
        lag = duration(peer["lag_ms"]) if queued else None
        add(
            made, peer["server"], _known_from(peer), state(peer), queued, lag, next_attempt(peer), reached,
            request, peer["failure"],
        )  # fmt: skip
    console.print(made)
    if answer["total"] > len(answer["peers"]):
        console.print(f"{len(answer['peers'])} of {answer['total']} servers shown: use --search or --limit.")


def _known_from(peer: Mapping[str, Any]) -> str:
    rooms = "1 room" if peer["rooms"] == 1 else f"{peer['rooms']} rooms"
    sources = [
        *(["configuration"] if peer["configured"] else []),
        *(["peers of agents"] if peer.get("exchanges_agents") else []),
        *([rooms] if peer["rooms"] else []),
        *([] if peer["admitted"] else ["not admitted"]),
    ]
    return ", ".join(sources) or "its requests"


@app.command()
def check(
    peer: Annotated[
        str | None, typer.Argument(help="The server name of the server to check.", show_default=False)
    ] = None,
    itself: Annotated[bool, typer.Option("--self", help="Check this node as other servers see it.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Check whether this node can discover, reach and authenticate a server and send requests to it, and show
    what is wrong.

    Example: palaver peers check kitchen.local"""
    if (peer is None) != itself:
        raise LocalError(
            "The command needs one server or --self.", "Name a server, or use --self for this node itself."
        )
    output = Output(as_json=as_json)
    if not as_json and output.err.is_terminal:
        with output.err.status("Checking …"):
            answer = _check(path, peer, itself=itself)
    else:
        answer = _check(path, peer, itself=itself)
    output.show(answer, lambda console: _findings(console, answer))
    if answer["verdict"] == "fault":
        raise typer.Exit(FAILED)


def _check(path: Path | None, peer: str | None, *, itself: bool) -> dict[str, Any]:
    return ask(path, "peers-check", timeout_secs=CHECK_TIMEOUT, server=peer, self=itself or None)


def _findings(console: Console, answer: Mapping[str, Any]) -> None:
    for finding in answer["findings"]:
        mark, style = MARKS.get(finding["verdict"], ("?", "yellow"))
        subject = cell(finding["subject"], "bold")
        console.print(Text.assemble((mark, style), " ", subject, "  ", cell(finding["text"])))
        if finding["advice"]:
            console.print(Text.assemble("    → ", cell(finding["advice"])))
    console.print()
    console.print(lines(SUMMARIES.get(answer["verdict"], "").format(answer["server"])))


@app.command()
def retry(
    peer: Annotated[
        str | None, typer.Argument(help="The server name of the server to retry.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All servers with a queue.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Retry an unreachable server now, with a new server discovery, instead of at the next attempt.

    Example: palaver peers retry kitchen.local"""
    if (peer is None) != every:
        raise LocalError(
            "The command needs one server or --all.", "Name a server, or use --all for all servers with a queue."
        )
    answer = ask(path, "peers-retry", server=peer, all=every)
    Output(as_json=as_json).show(answer, lambda console: _retried(console, answer))


def _retried(console: Console, answer: Mapping[str, Any]) -> None:
    for one in answer["tried"]:
        outcome = "is retried now" if one["waiting"] else "has an empty queue; the next event is sent at once"
        console.print(lines(f"{one['server']} {outcome}."))
    for server in answer["not_admitted"]:
        console.print(lines(f"{server} is skipped: the configuration does not admit it.", "yellow"))
    if not answer["tried"] and not answer["not_admitted"]:
        console.print("All queues are empty.")
    elif answer["tried"]:
        console.print("`palaver queue` shows the result.", markup=False)


@app.command("add")
def add_peer(
    node: Node,
    url: Annotated[
        str | None, typer.Argument(help="The node's URL. Default: server discovery by its name.", show_default=False)
    ] = None,
    untrusted: Annotated[
        bool, typer.Option("--untrusted", help="Add the node in order to refuse its requests.")
    ] = False,
    profile: Annotated[
        PeerProfile, typer.Option("--profile", help="The node's protocol: `cis-1.1` for published CIS nodes.")
    ] = PeerProfile.MATRIX,
    namespaces: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            help="A namespace that the node may use. Repeatable. Default: the first namespace of this node.",
        ),
    ] = None,
    networks: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            help="With cis-1.1: a network from which the node sends. Repeatable. Default: the address in its URL.",
        ),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(
            "--authority",
            help="Certificate authorities to trust for this node only, in PEM format: the node's tls/ca.pem.",
        ),
    ] = None,
    signing_key: Annotated[
        str | None, typer.Option("--signing-key", help="With cis-1.1: the node's public Ed25519 key in hexadecimal.")
    ] = None,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="With cis-1.1: refuse events not signed with that key.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Exchange agents with another node from now on, as if the configuration contained it. Running it again
    replaces the previous settings.

    Example: palaver peers add kitchen.local https://kitchen.local:7676"""
    answer = ask(
        path,
        "peers-add",
        node_id=node,
        url=url,
        untrusted=untrusted or None,
        profile=profile.value,
        namespaces=namespaces or None,
        networks=networks or None,
        authority=None if authority is None else _pem(authority),
        signing_key=signing_key,
        require_signature=require_signature or None,
    )
    Output(as_json=as_json).show(answer, lambda console: _added(console, answer))


def _pem(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            text = opened.read(MAX_BYTES + 1).decode("ascii", "replace")
    except OSError as error:
        raise LocalError(
            f"The authority {file} could not be read: {error.strerror}.", "Name a file that you can read."
        ) from None
    read = read_authority(text)
    if isinstance(read, LocalError):
        raise LocalError(f"{file}: {read.problem}", read.advice)
    return read


def _added(console: Console, answer: Mapping[str, Any]) -> None:
    node = answer["node_id"]
    unchanged = "" if answer["changed"] else " Nothing has changed."
    if not answer["trusted"]:
        console.print(lines(f"{node} is added as untrusted: its requests are refused.{unchanged}"))
        return
    console.print(lines(f"{node} is a peer: this node exchanges agents with it.{unchanged}"))
    if not _is_refused(console, answer):
        console.print(
            lines(
                "Peering must be configured on both sides. `palaver peers list` shows when the node last"
                " sent a request."
            )
        )


def _is_refused(console: Console, answer: Mapping[str, Any]) -> bool:
    is_refused: bool = answer["is_refused"]
    if is_refused:
        advice = f"federation.refuse in the configuration refuses {answer['node_id']}: remove it there."
        console.print(lines(advice, "yellow"))
    return is_refused


@app.command("remove")
def remove(node: Node, path: ConfigFile = None, as_json: Json = False) -> None:
    """Stop exchanging agents with a node that was added. For a node in the configuration, undo `palaver peers
    trust`.

    Example: palaver peers remove kitchen.local"""
    answer = ask(path, "peers-remove", node_id=node)
    Output(as_json=as_json).show(answer, lambda console: console.print(lines(_removed(answer))))


def _removed(answer: Mapping[str, Any]) -> str:
    node, left = answer["node_id"], answer["peer"]
    if left is not None:
        trusted = "trusted" if left["trusted"] else "not trusted"
        return f"The configuration of {node} applies again: it is {trusted}."
    if not answer["changed"]:
        return f"{node} is not a peer: there was nothing to remove."
    return f"{node} is no longer a peer: no agents are exchanged with it."


@app.command("trust")
def trust(
    node: Node,
    no: Annotated[bool, typer.Option("--no", help="Stop trusting the node.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Trust a node, or with --no stop trusting it. No agents are exchanged with an untrusted node, in either
    direction.

    Example: palaver peers trust kitchen.local --no"""
    answer = ask(path, "peers-trust", node_id=node, no=no or None)
    Output(as_json=as_json).show(answer, lambda console: _show_trust(console, answer))


def _show_trust(console: Console, answer: Mapping[str, Any]) -> None:
    console.print(lines(_trusted(answer)))
    _is_refused(console, answer)


def _trusted(answer: Mapping[str, Any]) -> str:
    node, unchanged = answer["node_id"], "" if answer["changed"] else " Nothing has changed."
    if answer["trusted"]:
        return f"{node} is trusted: this node exchanges agents with it.{unchanged}"
    return f"{node} is not trusted: no agents are exchanged, and its agents are removed here.{unchanged}"
