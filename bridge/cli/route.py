"""`palaver route`: where an address leads."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from bridge.cli.asking import ask
from bridge.cli.cells import cell
from bridge.cli.options import ConfigFile, Json
from bridge.cli.output import FAILED, Output

DECISIONS = {"local": ("Local", "green"), "remote": ("Remote", "green"), "unknown": ("Unknown", "yellow")}


def route(
    address: Annotated[
        str, typer.Argument(help="agent@node, or an id alone where that is enough.", show_default=False)
    ],
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Say where an address leads, and why: to an agent here, to one of another node, or nowhere."""
    answer = ask(path, "route", address=address)
    Output(as_json=as_json).show(answer, lambda console: _show(console, answer))
    if answer["decision"] == "unknown":
        raise typer.Exit(FAILED)


def _show(console: Console, answer: Mapping[str, Any]) -> None:
    word, style = DECISIONS.get(answer["decision"], (answer["decision"], ""))
    where = ""
    if answer["decision"] == "remote":
        where = f" {answer['node_id']} at {answer['url']}" if answer["url"] else f" {answer['node_id']}"
    console.print(Text.assemble(cell(word + where, style), "  ", cell(answer["why"])))
    if answer["advice"]:
        console.print(Text.assemble("    → ", cell(answer["advice"])))
