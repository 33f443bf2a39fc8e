"""The process of the people who send questions.

`python -m bench._appservice.load_generator SETTINGS`: reports that it is ready, then answers each line of
JSON with one line.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import Mapping
from typing import Any

import uvloop

from bench._appservice.asking import Asking
from bench._appservice.sides import Settings, settings_of
from bench._harness.lifeline import lines_from_parent, tell_parent
from tests.support.matrix_client import Homeserver, MatrixClient


async def answer(asking: Mapping[str, Asking], command: dict[str, Any]) -> dict[str, Any]:
    """Execute the command of a line."""
    asked = asking[command.pop("side")]
    match command.pop("do"):
        case "lone":
            return await asked.lone(**command)
        case "many":
            return await asked.many(**command)
        case other:
            raise AssertionError(f"unknown command {other}")


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    tls = ssl.create_default_context(cafile=settings.authority)
    homeserver = Homeserver(settings.homeserver, tls)
    try:
        people = [MatrixClient(homeserver, one.user_id, one.token, None) for one in settings.people]
        asking = {side: Asking(people, answerer) for side, answerer in settings.answerers.items()}
        tell_parent(ready=True)
        async for line in lines_from_parent():
            tell_parent(**await answer(asking, json.loads(line)))
    finally:
        await homeserver.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings_of(json.loads(sys.argv[1]))))
