"""`palaver registration`: the registration files of a node that is an application service."""

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
            "--check", help="Write nothing. Compare the file with the configuration, and test it with the homeserver."
        ),
    ] = False,
    new_tokens: Annotated[
        bool, typer.Option("--new-tokens", help="Generate new tokens instead of keeping the file's.")
    ] = False,
    double_puppet: Annotated[
        bool,
        typer.Option(
            "--double-puppet", help="Write the second file, with which the node may act as any user of the homeserver."
        ),
    ] = False,
    path: ConfigFile = None,
    as_json: Json = False,
) -> None:
    """Write the file that registers this node as an application service of a homeserver. An existing file
    keeps its tokens.

    Example: palaver registration --check"""
    output = Output(as_json=as_json)
    config = loaded(path).config
    if config.attached_to is None:
        raise LocalError(
            "This node is a homeserver itself, so it has no registration.",
            'For an application service set matrix_side = "appservice" and [appservice] in the configuration.',
        )
    if check and new_tokens:
        raise LocalError(
            "--check and --new-tokens exclude each other.", "Use --check, which writes nothing, or --new-tokens."
        )
    if check and double_puppet:
        raise LocalError(
            "--check and --double-puppet exclude each other.",
            "Use --check alone: it also checks the second file if [double_puppet] is enabled.",
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
    problems = asyncio.run(_find_problems(config))

    def report(console: Console) -> None:
        for problem in problems:
            console.print("[red]✗[/] ", end="")
            console.print(problem, markup=False)
        if not problems:
            console.print("[green]✓[/] ", end="")
            console.print(
                f"{config.attached_to} at {homeserver} has loaded {file} and reaches this node.", markup=False
            )

    output.show({"registration": str(file), "homeserver": homeserver, "wrong": list(problems)}, report)
    if problems:
        raise typer.Exit(FAILED)


async def _find_problems(config: Config) -> tuple[str, ...]:
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
            "users": [namespace.regex for namespace in written.users],
            "aliases": [namespace.regex for namespace in written.aliases],
        },
        lambda console: console.print(_next_steps(config, file, option), markup=False),
    )


def _write_double_puppet(output: Output, config: Config, option: str, *, new_tokens: bool) -> None:
    section = config.double_puppet
    file = section.registration
    written = write_double_puppet(file, wanted_puppets(section, config.appservice), new_tokens=new_tokens)
    enable = "" if section.enabled else "  set enabled = true in [double_puppet] of this node's configuration\n"
    output.show(
        {"registration": str(file), "id": written.id, "users": [namespace.regex for namespace in written.users]},
        lambda console: console.print(
            f"Wrote {file}. Its tokens give full access to all accounts of {config.attached_to}."
            f" Next:\n{enable}  add the file to the homeserver's configuration, beside the first one:"
            f" {file.resolve()}\n  restart the homeserver, then run here: palaver registration"
            f" --check{option}",
            markup=False,
        ),
    )


def _next_steps(config: Config, file: Path, option: str) -> str:
    return "\n".join(
        [
            f"Wrote {file}. Next, on {config.attached_to}:",
            "  add the file to the homeserver's configuration",
            f"    Synapse, in homeserver.yaml: app_service_config_files: [{file.resolve()}]",
            f"    Dendrite, in dendrite.yaml: app_service_api: {{config_files: [{file.resolve()}]}}",
            "    other homeservers: as their documentation on application services says",
            f"  restart the homeserver, then run here: palaver registration --check{option}",
        ]
    )
