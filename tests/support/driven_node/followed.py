"""The entries of a durable stream reader, over all restarts of its node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = Mapping[str, Any]


@dataclass
class Followed:
    """The entries by position, as a reader sees them that commits its results together with `upto`."""

    name: str
    entries: dict[int, Entry] = field(default_factory=dict)
    upto: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, told: Mapping[str, Any]) -> None:
        for entry in told.get("entries", ()):
            position = entry["position"]
            assert position > self.upto, f"{position} was read and committed before"
            assert self.entries.get(position, entry) == entry, f"{position} was something else before"
            self.entries[position] = entry
        self.upto = told.get("upto", self.upto)
        self._changed.set()

    @property
    def events(self) -> list[Mapping[str, Any]]:
        """Return the events in the order of the stream."""
        return [self.entries[position]["event"] for position in sorted(self.entries)]

    async def until(self, condition: Callable[["Followed"], object], within: float) -> None:
        async with asyncio.timeout(within):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()
