"""Options that many commands share, and what they lead to."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bridge.service.config_file import LoadedConfig, load_config

Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="PALAVER_CONFIG",
        help="The configuration; ./palaver.toml if there is one.",
        show_default=False,
    ),
]


def loaded(path: Path | None) -> LoadedConfig:
    return load_config(path, os.environ, Path.cwd())
