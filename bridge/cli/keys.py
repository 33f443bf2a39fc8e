"""`palaver keys`: the signing key of this node."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import typer

from bridge.cli.output import ConfigFile, Json, Output, loaded
from bridge.clock import now_ms
from bridge.config.config import Config
from bridge.control.client import NotRunning, ask_node
from bridge.node.data_directory import DataDirectory
from federation.keys.local_keys import LocalKeyFiles
from federation.keys.server_keys import describe
from storage.errors import LocalError

app = typer.Typer(help="Show or replace the signing key.", no_args_is_help=True)


@app.command()
def show(path: ConfigFile = None, as_json: Json = False) -> None:
    """Show the public signing keys: the current one, and old ones with their expiry.

    Example: palaver keys show"""
    config = loaded(path).config
    keys = LocalKeyFiles(config.data_dir).load()
    if keys is None:
        raise LocalError(f"There is no signing key in {config.data_dir} yet.", "`palaver run` generates one.")
    _show(Output(as_json=as_json), describe(keys))


@app.command()
def rotate(path: ConfigFile = None, as_json: Json = False) -> None:
    """Generate a new signing key and use it from now on. Signatures of the old key stay valid.

    Example: palaver keys rotate"""
    config = loaded(path).config
    _show(Output(as_json=as_json), asyncio.run(_rotate(config)))


def _show(output: Output, keys: dict[str, Any]) -> None:
    lines = [f"{keys['key_id']}  {keys['public_key']}  in use"]
    for key_id, old in keys["old_keys"].items():
        until = datetime.fromtimestamp(old["expired_ts"] / 1000, UTC)
        lines.append(f"{key_id}  {old['public_key']}  until {until:%Y-%m-%d %H:%M:%S} UTC")
    # Peers with profile "cis-1.1" verify events only with the current key.
    lines.append(f'For agent_federation.peers of other nodes: signing_key = "{keys["public_key_hex"]}"')
    output.show(keys, lambda console: console.print("\n".join(lines), markup=False))


async def _rotate(config: Config) -> dict[str, Any]:
    try:
        return await ask_node(config.data_dir, "rotate-keys")
    except NotRunning:
        with DataDirectory(config.data_dir):
            files = LocalKeyFiles(config.data_dir)
            keys = files.load()
            if keys is None:
                raise LocalError(
                    f"There is no signing key in {config.data_dir} yet.", "`palaver run` generates one."
                ) from None
            return describe(files.rotate(keys, now_ms()))
