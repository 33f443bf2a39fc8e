"""`palaver status`: what the running node says of itself."""

import asyncio

from bridge.cli.options import ConfigFile, Json, loaded
from bridge.cli.output import Output
from bridge.service.control_client import ask_node


def status(path: ConfigFile = None, as_json: Json = False) -> None:
    """Show what the running node says of itself."""
    config = loaded(path).config
    Output(as_json=as_json).show(asyncio.run(ask_node(config.data_dir, "status")))
