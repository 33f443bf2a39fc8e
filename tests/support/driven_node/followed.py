"""What a reader of the durable stream was given, over all lives of its node."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Entry = Mapping[str, Any]


@dataclass
class Followed:
    """Each entry under its position, as whoever commits what he makes of them together with `upto` has it."""

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
        """In the order of the stream."""
        return [self.entries[position]["event"] for position in sorted(self.entries)]

    async def until(self, condition: Callable[["Followed"], object], patience: float) -> None:
        async with asyncio.timeout(patience):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()
