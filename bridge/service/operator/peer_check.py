"""`palaver peers check`: another server, or this one as others see it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.parts import Parts
from federation.peer_check import report, worst
from federation.service.peer_check import examine
from storage.errors import LocalError


async def peers_check(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was found, in the order in which one thing needs another. Takes as long as the server does."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    if arguments.flag("self"):
        server = parts.server_name
    if not server:
        raise LocalError("Which server is to be checked?", "Name one, or say --self for this node itself.")
    findings = report(await examine(parts, server))
    return {
        "server": server,
        "verdict": worst(findings).value,
        "findings": [asdict(finding) for finding in findings],
    }
