"""`palaver registration`: the file by which a homeserver knows a node that is its guest."""

import asyncio
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bridge.cli.output import FAILED, ConfigFile, Json, Output, loaded
from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.config.people import wanted_puppets
from bridge.node.registration import check_double_puppet, check_registration, write, write_double_puppet
from storage.errors import LocalError


def registration(
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Write nothing; compare it with the configuration, and ask the homeserver."
        ),
    ] = False,
    new_tokens: Annotated[
        bool, typer.Option("--new-tokens", help="Give it other tokens than the file has that is there.")
    ] = False,
    double_puppet: Annotated[
        bool,
        typer.Option(
            "--double-puppet", help="Write the second file, by which the node may speak as people there."
        ),
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write the file by which a homeserver knows this node as its guest. Written again it keeps its
    tokens."""
    output = Output(as_json=as_json)
    config = loaded(path).config
    if config.guest_of is None:
        raise LocalError(
            "This node is a homeserver itself, which no other one has to know by a registration.",
            'For a guest write matrix_side = "appservice" into the configuration, and its [appservice].',
        )
    if check and new_tokens:
        raise LocalError("Who only looks gives no new tokens.", "Say --check, or --new-tokens.")
    if check and double_puppet:
        raise LocalError(
            "Who only looks writes no file.",
            "Say --check alone: it looks at the second file too where [double_puppet] is enabled.",
        )
    option = "" if path is None else f" -c {shlex.quote(str(path))}"
    if check:
        _check(output, config)
    elif double_puppet:
        _write_double_puppet(output, config, option, new_tokens=new_tokens)
    else:
        _write(output, config, option, new_tokens=new_tokens)


def _check(output: Output, config: Config) -> None:
    file, homeserver = config.appservice.registration, config.appservice.homeserver
    wrong = asyncio.run(_wrong(config))

    def report(console: Console) -> None:
        for sentence in wrong:
            console.print("[red]✗[/] ", end="")
            console.print(sentence, markup=False)
        if not wrong:
            console.print("[green]✓[/] ", end="")
            console.print(
                f"{config.guest_of} at {homeserver} has {file}, and reaches this node.", markup=False
            )

    output.show({"registration": str(file), "homeserver": homeserver, "wrong": list(wrong)}, report)
    if wrong:
        raise typer.Exit(FAILED)


async def _wrong(config: Config) -> tuple[str, ...]:
    first = await check_registration(config.appservice, config.server_name, config.alias_kinds)
    return (*first, *await check_double_puppet(config.double_puppet, config.appservice))


def _write(output: Output, config: Config, option: str, *, new_tokens: bool) -> None:
    file = config.appservice.registration
    written = write(file, wanted(config.appservice, config.server_name), new_tokens=new_tokens)
    output.show(
        {
            "registration": str(file),
            "id": written.id,
            "url": written.url,
            "users": [one.regex for one in written.users],
            "aliases": [one.regex for one in written.aliases],
        },
        lambda console: console.print(_next_steps(config, file, option), markup=False),
    )


def _write_double_puppet(output: Output, config: Config, option: str, *, new_tokens: bool) -> None:
    section = config.double_puppet
    file = section.registration
    written = write_double_puppet(file, wanted_puppets(section, config.appservice), new_tokens=new_tokens)
    enable = (
        "" if section.enabled else "  set enabled = true in [double_puppet] of this node's configuration\n"
    )
    output.show(
        {"registration": str(file), "id": written.id, "users": [one.regex for one in written.users]},
        lambda console: console.print(
            f"Wrote {file}. Who has it can do all that the people of {config.guest_of} can. Next:\n{enable}"
            f"  let the homeserver read it too, beside the other one: {file.resolve()}\n"
            f"  start it again, then here: palaver registration --check{option}",
            markup=False,
        ),
    )


def _next_steps(config: Config, file: Path, option: str) -> str:
    return "\n".join(
        [
            f"Wrote {file}. Next, on {config.guest_of}:",
            f"  let the homeserver read it, Synapse by app_service_config_files: [{file.resolve()}]",
            f"  start it again, then here: palaver registration --check{option}",
        ]
    )
