"""`palaver doctor`: find problems of the node and how to fix them."""

import asyncio
import os
from pathlib import Path

import typer
from rich.console import Console

from bridge.cli.output import FAILED, ConfigFile, Json, Output
from bridge.config.files import BadConfig, load_config
from bridge.node.doctor import Finding, Verdict, fault, outcome, run_checks, summary
from bridge.node.doctor import as_json as findings_as_json
from storage.errors import LocalError

MARKS = {Verdict.OK: "[green]✓[/]", Verdict.NOTE: "[yellow]![/]", Verdict.FAULT: "[red]✗[/]"}


def doctor(path: ConfigFile = None, as_json: Json = False) -> None:
    """Check the node, running or stopped, and show problems with advice. Exits with 1 if there is a fault.

    Example: palaver doctor --config /etc/palaver/palaver.toml"""
    output = Output(as_json=as_json)
    findings = asyncio.run(_findings(path))
    output.show(findings_as_json(findings), lambda console: _report(console, findings))
    if outcome(findings) is Verdict.FAULT:
        raise typer.Exit(FAILED)


async def _findings(path: Path | None) -> list[Finding]:
    try:
        found = load_config(path, os.environ, Path.cwd())
    except BadConfig as error:
        return [fault("configuration", str(mistake), "") for mistake in error.mistakes]
    except LocalError as error:
        return [fault("configuration", error.problem, error.advice)]
    return await run_checks(found)


def _report(console: Console, findings: list[Finding]) -> None:
    for finding in findings:
        console.print(f"{MARKS[finding.verdict]} [bold]{finding.subject}[/]  ", end="")
        console.print(finding.text, markup=False)
        if finding.advice:
            console.print(f"    → {finding.advice}", markup=False)
    console.print()
    console.print(summary(findings), markup=False)
