"""`palaver config`: what is configured, and whether it is right."""

from collections.abc import Iterator
from typing import Any

import typer

from bridge.cli.options import ConfigFile, Json, loaded
from bridge.cli.output import Output
from bridge.config import Config
from bridge.config_example import render
from bridge.config_section import Section
from bridge.toml_text import toml_value

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
