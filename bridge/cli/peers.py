"""`palaver peers`: the servers that the running node deals with, and the nodes that it exchanges agents
with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.output import FAILED, ConfigFile, Json, Output, add, ask, cell, lines, table
from bridge.cli.queue import next_attempt, state
from bridge.clock import now_ms
from bridge.peers.authority import MOST_BYTES, read_authority
from bridge.peers.peer import PeerProfile
from bridge.text.times import ago, duration
from storage.errors import LocalError

# Seconds. A server that does not answer takes its time at every step.
CHECKING = 300.0
MARKS = {"fine": ("✓", "green"), "warning": ("!", "yellow"), "fault": ("✗", "red")}
SUMMARIES = {
    "fine": "Nothing is wrong with {}.",
    "warning": "{} works, or may; look at what is marked with !.",
    "fault": "{} does not work; begin with the first of what is marked with ✗.",
}

app = typer.Typer(
    help="Look at the servers that the running node deals with, and say with whom it exchanges agents.",
    no_args_is_help=True,
)

Node = Annotated[
    str, typer.Argument(help="The node's name: agents there are agent@name.", show_default=False)
]


@app.command("list")
def list_(
    search: Annotated[str | None, typer.Option("--search", help="Only names with this in them.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="How many to show.")] = 100,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """List them, those in trouble first: what waits for them, and when they were reached last. Those that
    agents are exchanged with are listed by themselves: whether they are trusted, and who has said so."""
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
        where = f"{peer['from']}, but for its trust" if peer["overridden"] else peer["from"]
        namespaces = peer["namespaces"] or "the first"
        add(made, peer["node_id"], trusted, peer["profile"], where, peer["url"] or "its name", namespaces)
    console.print(made)


def _servers(console: Console, answer: Mapping[str, Any]) -> None:
    if not answer["peers"]:
        console.print("No server is known.")
        return
    made = table(
        "server", "known from", "state", "waiting", "lag", "next attempt", "reached", "heard", "last failure"
    )
    for peer in answer["peers"]:
        reached, heard = (ago(peer[name], now_ms()) for name in ("reached_at", "heard_at"))
        waiting = f"{peer['pdus']} + {peer['edus']}" if peer["pdus"] or peer["edus"] else None
        lag = duration(peer["lag_ms"]) if waiting else None
        add(
            made, peer["server"], _known(peer), state(peer), waiting, lag, next_attempt(peer), reached, heard,
            peer["failure"],
        )  # fmt: skip
    console.print(made)
    if answer["total"] > len(answer["peers"]):
        console.print(f"{len(answer['peers'])} of {answer['total']}: use --search or --limit.")


def _known(peer: Mapping[str, Any]) -> str:
    rooms = "1 room" if peer["rooms"] == 1 else f"{peer['rooms']} rooms"
    where = [
        *(["configuration"] if peer["configured"] else []),
        *(["peers of agents"] if peer.get("exchanges_agents") else []),
        *([rooms] if peer["rooms"] else []),
        *([] if peer["admitted"] else ["not admitted"]),
    ]
    return ", ".join(where) or "its requests"


@app.command()
def check(
    peer: Annotated[str | None, typer.Argument(help="A server.", show_default=False)] = None,
    itself: Annotated[bool, typer.Option("--self", help="This node, as others see it.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say whether a server can be found, reached, believed and spoken with; and if not, what is wrong."""
    if (peer is None) != itself:
        raise LocalError("Which server is to be checked?", "Name one, or say --self for this node itself.")
    output = Output(as_json=as_json)
    if not as_json and output.err.is_terminal:
        with output.err.status("Looking …"):
            answer = _checked(path, peer, itself=itself)
    else:
        answer = _checked(path, peer, itself=itself)
    output.show(answer, lambda console: _findings(console, answer))
    if answer["verdict"] == "fault":
        raise typer.Exit(FAILED)


def _checked(path: Path | None, peer: str | None, *, itself: bool) -> dict[str, Any]:
    return ask(path, "peers-check", patience=CHECKING, server=peer, self=itself or None)


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
    peer: Annotated[str | None, typer.Argument(help="A server.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All for which something waits.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Try a server now that does not answer, and look anew for the way to it."""
    if (peer is None) != every:
        raise LocalError("Which server is to be tried?", "Name one, or say --all.")
    answer = ask(path, "peers-retry", server=peer, all=every)
    Output(as_json=as_json).show(answer, lambda console: _retried(console, answer))


def _retried(console: Console, answer: Mapping[str, Any]) -> None:
    for one in answer["tried"]:
        said = "is tried now" if one["waiting"] else "will be tried: nothing waits for it now"
        console.print(lines(f"{one['server']} {said}."))
    for server in answer["not_admitted"]:
        console.print(lines(f"{server} is left alone: the configuration does not admit it.", "yellow"))
    if not answer["tried"] and not answer["not_admitted"]:
        console.print("Nothing waits for anybody.")
    elif answer["tried"]:
        console.print("`palaver queue` shows how it ended.", markup=False)


@app.command("add")
def add_peer(
    node: Node,
    url: Annotated[
        str | None, typer.Argument(help="Where it is; else where its name leads.", show_default=False)
    ] = None,
    untrusted: Annotated[bool, typer.Option("--untrusted", help="Name it in order to refuse it.")] = False,
    profile: Annotated[
        PeerProfile, typer.Option("--profile", help="How it speaks: `cis-1.1` for published CIS nodes.")
    ] = PeerProfile.MATRIX,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", help="One that it may use; else the first one of this node."),
    ] = None,
    networks: Annotated[
        list[str] | None,
        typer.Option("--network", help="With cis-1.1: from where it sends; else the address in its url."),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option("--authority", help="Certificates to believe from it alone, PEM: its tls/ca.pem."),
    ] = None,
    signing_key: Annotated[
        str | None, typer.Option("--signing-key", help="With cis-1.1: its public Ed25519 key, hexadecimal.")
    ] = None,
    require_signature: Annotated[
        bool, typer.Option("--require-signature", help="With cis-1.1: refuse what is not signed with it.")
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Exchange agents with another node, at once and from now on, as if the configuration named it. Said
    again, it is as it was said last."""
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
            text = opened.read(MOST_BYTES + 1).decode("ascii", "replace")
    except OSError as error:
        raise LocalError(
            f"The authority {file} could not be read: {error.strerror}.",
            "Name a file that is readable for you.",
        ) from None
    read = read_authority(text)
    if isinstance(read, LocalError):
        raise LocalError(f"{file}: {read.problem}", read.advice)
    return read


def _added(console: Console, answer: Mapping[str, Any]) -> None:
    node = answer["node_id"]
    said = "" if answer["changed"] else " It was so already."
    if not answer["trusted"]:
        console.print(lines(f"{node} is named, and refused.{said}"))
        return
    console.print(lines(f"{node} is a peer, and agents are exchanged with it.{said}"))
    if not _is_refused(console, answer):
        console.print(lines("It must name this node too. `palaver peers list` shows when it was heard."))


def _is_refused(console: Console, answer: Mapping[str, Any]) -> bool:
    is_refused: bool = answer["is_refused"]
    if is_refused:
        advice = f"federation.refuse in the configuration keeps {answer['node_id']} away: take it out there."
        console.print(lines(advice, "yellow"))
    return is_refused


@app.command("remove")
def remove(node: Node, path: ConfigFile = None, as_json: Json = False) -> None:
    """Exchange agents no more with a node that was added; of one of the configuration, take back what
    `palaver peers trust` has said."""
    answer = ask(path, "peers-remove", node_id=node)
    Output(as_json=as_json).show(answer, lambda console: console.print(lines(_removed(answer))))


def _removed(answer: Mapping[str, Any]) -> str:
    node, left = answer["node_id"], answer["peer"]
    if left is not None:
        trusted = "trusted" if left["trusted"] else "not trusted"
        return f"What the configuration says of {node} counts again: it is {trusted}."
    if not answer["changed"]:
        return f"{node} is no peer: there was nothing to remove."
    return f"{node} is no peer any more: nothing is exchanged with it."


@app.command("trust")
def trust(
    node: Node,
    no: Annotated[bool, typer.Option("--no", help="Trust it no more.")] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say that a node is trusted, or that it is not: then nothing is exchanged with it, in either
    direction."""
    answer = ask(path, "peers-trust", node_id=node, no=no or None)
    Output(as_json=as_json).show(answer, lambda console: _show_trust(console, answer))


def _show_trust(console: Console, answer: Mapping[str, Any]) -> None:
    console.print(lines(_trusted(answer)))
    _is_refused(console, answer)


def _trusted(answer: Mapping[str, Any]) -> str:
    node, said = answer["node_id"], "" if answer["changed"] else " It was so already."
    if answer["trusted"]:
        return f"{node} is trusted, and agents are exchanged with it.{said}"
    return f"{node} is not trusted: nothing is exchanged with it, and its agents are gone from here.{said}"
