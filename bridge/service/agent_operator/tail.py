"""`palaver tail`: what happens, as it happens."""

from collections.abc import Mapping
from typing import Any

from bridge.live_event import LiveFilter, LiveType
from bridge.service.agent_operator.parts import Parts
from bridge.service.control_stream import Items
from bridge.service.operator.arguments import Arguments
from storage.errors import LocalError


async def tail(parts: Parts, given: Mapping[str, Any]) -> Items:
    """It goes on until the asker leaves."""
    return _tail(parts, _filter(Arguments(given)))


async def _tail(parts: Parts, wanted: LiveFilter) -> Items:
    with parts.feed.listening(wanted) as listener:
        # From here on nothing is missed, and whoever asked knows it.
        yield {"type": "listening"}
        while True:
            yield await listener.next()


def _filter(arguments: Arguments) -> LiveFilter:
    return LiveFilter(
        types=frozenset(map(_type, arguments.texts("types"))),
        agents=frozenset(arguments.texts("agents")),
        nodes=frozenset(arguments.texts("nodes")),
        tasks=frozenset(arguments.texts("tasks")),
    )


def _type(text: str) -> LiveType:
    try:
        return LiveType(text)
    except ValueError:
        raise LocalError(
            f"Nothing of the type {text} happens.", f"There are {', '.join(LiveType)}."
        ) from None
