"""`palaver config`: what is configured, and whether it is right.

`palaver init`: write a configuration that works.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.output import ConfigFile, Json, Output, loaded
from bridge.config.config import DEFAULT_SERVER_NAME, Config, is_loopback
from bridge.config.errors import read_config
from bridge.config.example import render
from bridge.config.files import FILE_NAME, BadConfig
from bridge.config.section import Section
from bridge.text.toml_text import toml_value
from storage.durable_file import write_durably
from storage.errors import LocalError

app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)


@app.command()
def show(path: ConfigFile = None, as_json: Json = False) -> None:
    """Print the settings in force: the file, the environment and the defaults together."""
    config = loaded(path).config
    Output(as_json=as_json).show(
        config.model_dump(mode="json"), lambda console: console.print(as_toml(config), markup=False)
    )


@app.command()
def check(path: ConfigFile = None, as_json: Json = False) -> None:
    """Say what is wrong with the configuration, all of it at once."""
    found = loaded(path)
    where = str(found.path) if found.path is not None else "no file, the defaults"
    Output(as_json=as_json).show(
        {"config": where, "mistakes": []},
        lambda console: console.print(f"No mistakes ({where}).", markup=False),
    )


@app.command()
def example(as_json: Json = False) -> None:
    """Print every setting with its explanation."""
    Output(as_json=as_json).show(
        {"text": render()}, lambda console: console.print(render(), markup=False, end="")
    )


def as_toml(config: Config) -> str:
    """The settings as a file would hold them; what has no value is left out."""
    return "\n".join(_lines(config, ""))


def _lines(section: Section, prefix: str) -> Iterator[str]:
    """What stands below the header of a section belongs to it, so its own settings come first."""
    items = [(name, getattr(section, name)) for name in type(section).model_fields]
    for name, value in items:
        if value is not None and not isinstance(value, Section) and not _blocks(value):
            yield f"{name} = {toml_value(value)}"
    for name, value in items:
        if isinstance(value, Section):
            yield f"\n[{prefix}{name}]"
            yield from _lines(value, f"{prefix}{name}.")
        for block in _blocks(value):
            yield f"\n[[{prefix}{name}]]"
            yield from _lines(block, f"{prefix}{name}.")


def _blocks(value: Any) -> list[Section]:
    return [one for one in value if isinstance(one, Section)] if isinstance(value, list) else []


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
