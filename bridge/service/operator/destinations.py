"""How it stands with the servers that events are sent to: the database's word on it and this process's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bridge.service.operator.parts import Parts
from federation.destination import View
from storage.outages import OutageRow, list_outages
from storage.outbox import Depth, depths


@dataclass(frozen=True, slots=True)
class Destinations:
    """By server: what waits, who does not answer, and what the senders of this process are at."""

    waiting: Mapping[str, Depth]
    outages: Mapping[str, OutageRow]
    views: Mapping[str, View]

    def names(self) -> set[str]:
        return {*self.waiting, *self.outages}

    def shown(self, parts: Parts, server: str) -> dict[str, Any]:
        """Times are milliseconds; `reached_at`, `failure` and `heard_at` are of this process alone."""
        depth, outage = self.waiting.get(server), self.outages.get(server)
        view, contact = self.views.get(server), parts.outbox.contact(server)
        return {
            "server": server,
            "state": self._state(server),
            "pdus": depth.pdus if depth is not None else 0,
            "edus": depth.edus if depth is not None else 0,
            "oldest_at": depth.oldest if depth is not None else None,
            "lag_ms": max(0, parts.now_ms() - depth.oldest) if depth is not None else 0,
            "in_flight": view.in_flight if view is not None else 0,
            "catching_up": view is not None and view.catching_up,
            "failures": view.failures if view is not None else outage.failures if outage is not None else 0,
            "failing_since": outage.failing_since if outage is not None else None,
            "retry_at": _retry_at(view, outage),
            "reached_at": contact.reached_at,
            "failed_at": contact.failed_at,
            "failure": contact.failure,
            "heard_at": contact.heard_at,
        }

    def _state(self, server: str) -> str:
        """That of its sender; where another process has it, or none, what the database lets one think."""
        view = self.views.get(server)
        if view is not None:
            return view.state.value
        if server in self.outages:
            return "backing_off"
        return "waiting" if server in self.waiting else "idle"


async def load_destinations(parts: Parts) -> Destinations:
    async with parts.database.transaction(readonly=True) as connection:
        waiting = {depth.destination: depth for depth in await depths(connection)}
        outages = await list_outages(connection)
    return Destinations(waiting, outages, parts.outbox.view())


def _retry_at(view: View | None, outage: OutageRow | None) -> int | None:
    if view is not None:
        return view.retry_at
    return outage.retry_at if outage is not None else None
