"""`palaver init`: write a configuration that works."""

from pathlib import Path
from typing import Annotated

import typer

from bridge.cli.options import Json
from bridge.cli.output import Output
from bridge.config import DEFAULT_SERVER_NAME, is_loopback
from bridge.config_example import render
from bridge.config_mistakes import read_config
from bridge.service.config_file import FILE_NAME, BadConfig
from storage.durable_file import write_durably
from storage.errors import LocalError


def init(
    server_name: Annotated[
        str, typer.Option("--server-name", help="The name by which other servers reach this node.")
    ] = DEFAULT_SERVER_NAME,
    path: Annotated[Path, typer.Option("--config", "-c", help="Where to write it.")] = Path(FILE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a configuration file in which every setting is explained."""
    output = Output(as_json=as_json)
    if path.exists() and not force:
        raise LocalError(
            f"There is already a file {path}.", "Edit it, or replace it with `palaver init --force`."
        )
    text = render({"server_name": server_name})
    outcome = read_config(text, {})
    if isinstance(outcome, list):
        raise BadConfig("The new configuration", outcome)
    try:
        write_durably(path.resolve(), text.encode(), mode=0o644)
    except OSError as error:
        raise LocalError(
            f"The file {path} can't be written: {error.strerror}.", "Name another place with --config."
        ) from None
    output.show(
        {"config": str(path), "server_name": server_name},
        lambda console: console.print(_next_steps(path, server_name), markup=False),
    )


def _next_steps(path: Path, server_name: str) -> str:
    option = "" if path == Path(FILE_NAME) else f" --config {path}"
    lines = [f"Wrote {path} for the node {server_name}. Next:", f"  palaver run{option}"]
    if not is_loopback(server_name):
        lines += [
            "Before other servers can reach it: a certificate that they trust (listener.certificate and",
            f"listener.private_key in {path}), and port 7676 open.",
        ]
    return "\n".join(lines)
