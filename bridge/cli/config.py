"""`palaver config`: show and check the configuration. `palaver init`: write a new one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli.output import ConfigFile, Json, Output, loaded
from bridge.config.config import DEFAULT_SERVER_NAME, Config, is_loopback
from bridge.config.errors import read_config
from bridge.config.example import render
from bridge.config.files import FILE_NAME, WITHOUT_FILE, BadConfig
from bridge.config.section import Section
from bridge.text.toml_text import toml_value
from storage.durable_file import write_durably
from storage.errors import LocalError

app = typer.Typer(help="Show or check the configuration.", no_args_is_help=True)


@app.command()
def show(path: ConfigFile = None, as_json: Json = False) -> None:
    """Show the effective settings: the file, the environment variables and the defaults combined.

    Example: palaver config show --json"""
    config = loaded(path).config
    Output(as_json=as_json).show(
        config.model_dump(mode="json"), lambda console: console.print(as_toml(config), markup=False)
    )


@app.command()
def check(path: ConfigFile = None, as_json: Json = False) -> None:
    """Check the configuration and report all mistakes at once.

    Example: palaver config check --config /etc/palaver/palaver.toml"""
    found = loaded(path)
    where = str(found.path) if found.path is not None else "no file, the defaults"
    Output(as_json=as_json).show(
        {"config": where, "mistakes": []}, lambda console: console.print(f"No mistakes ({where}).", markup=False)
    )


@app.command()
def example(as_json: Json = False) -> None:
    """Print an example configuration that describes every setting.

    Example: palaver config example > palaver.toml"""
    Output(as_json=as_json).show({"text": render()}, lambda console: console.print(render(), markup=False, end=""))


def as_toml(config: Config) -> str:
    """Render the settings as TOML. Settings without a value are omitted."""
    return "\n".join(_lines(config, ""))


def _lines(section: Section, prefix: str) -> Iterator[str]:
    """Render a section's own settings before its subsections: settings below a header belong to that
    header."""
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
    return [item for item in value if isinstance(item, Section)] if isinstance(value, list) else []


def init(
    server_name: Annotated[
        str, typer.Option("--server-name", help="The Matrix server name of the node.")
    ] = DEFAULT_SERVER_NAME,
    path: Annotated[Path, typer.Option("--config", "-c", help="The file to write.")] = Path(FILE_NAME),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Write a configuration file that describes every setting.

    Example: palaver init --server-name palaver.example.org"""
    output = Output(as_json=as_json)
    if path.exists() and not force:
        raise LocalError(f"The file {path} already exists.", "Edit it, or overwrite it with `palaver init --force`.")
    text = f"{render({'server_name': server_name})}\n{WITHOUT_FILE}"
    outcome = read_config(text, {})
    if isinstance(outcome, list):
        raise BadConfig("The new configuration", outcome)
    try:
        write_durably(path.resolve(), text.encode(), mode=0o644)
    except OSError as error:
        raise LocalError(
            f"The file {path} can't be written: {error.strerror}.", "Name another file with --config."
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
            "Other servers can reach the node when it has a certificate that they trust",
            f"(listener.certificate and listener.private_key in {path}) and port 7676 is open.",
        ]
    return "\n".join(lines)
