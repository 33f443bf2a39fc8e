"""Commands that the running node carries out."""

import asyncio
from pathlib import Path
from typing import Any

from bridge.cli.options import loaded
from bridge.service.control_client import PATIENCE, ask_node


def ask(path: Path | None, command: str, *, patience: float = PATIENCE, **arguments: Any) -> dict[str, Any]:
    """The node's answer; `path` is the configuration. What was left out is not sent."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return asyncio.run(ask_node(loaded(path).config.data_dir, command, given, patience=patience))
