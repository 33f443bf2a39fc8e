"""`palaver queue`: what waits for whom."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.destinations import load_destinations
from bridge.service.operator.parts import Parts
from storage.errors import LocalError
from storage.inspection import first_edus, first_pdus
from storage.outbox import fetch_transaction

PAGE: Final = 10
MOST: Final = 100
MOST_SERVERS: Final = 1_000


async def queue(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without a server, all for which something waits, the longest lag first; with one, the first of what
    waits for it."""
    arguments = Arguments(given)
    server = arguments.optional_text("server")
    if server is None:
        return await _all(parts)
    return await _one(parts, server, arguments.number("limit", PAGE, MOST))


async def _all(parts: Parts) -> Mapping[str, Any]:
    loaded = await load_destinations(parts)
    waiting = sorted(loaded.waiting.values(), key=lambda depth: (depth.oldest, depth.destination))
    return {
        "servers": [loaded.shown(parts, depth.destination) for depth in waiting[:MOST_SERVERS]],
        "total": len(waiting),
        "pdus": sum(depth.pdus for depth in waiting),
        "edus": sum(depth.edus for depth in waiting),
    }


async def _one(parts: Parts, server: str, limit: int) -> Mapping[str, Any]:
    loaded = await load_destinations(parts)
    known = {*loaded.names(), *loaded.views, *parts.outbox.contacts()}
    if server not in known:
        raise LocalError(
            f"Nothing waits for {server}, and nothing was sent to it since this node started.",
            "`palaver queue` shows for whom something waits, `palaver peers list` whom this node knows.",
        )
    # All of one moment: what is in flight is in the queue.
    async with parts.database.transaction(isolation="repeatable_read", readonly=True) as connection:
        pdus = await first_pdus(connection, server, limit)
        edus = await first_edus(connection, server, limit)
        in_flight = await fetch_transaction(connection, server)
    return {
        **loaded.shown(parts, server),
        "transaction": None
        if in_flight is None
        else {
            "transaction_id": in_flight.transaction_id,
            "first_sent_at": in_flight.origin_server_ts,
            "pdus": len(in_flight.pdus),
            "edus": len(in_flight.edus),
        },
        "first_pdus": [
            {
                "event_id": pdu.event_id,
                "type": pdu.type,
                "room_id": pdu.room_id,
                "queued_at": pdu.queued_at,
                "in_flight": in_flight is not None and pdu.position in in_flight.pdus,
            }
            for pdu in pdus
        ],
        "first_edus": [
            {
                "type": edu.edu_type,
                "queued_at": edu.queued_at,
                "in_flight": in_flight is not None and edu.position in in_flight.edus,
            }
            for edu in edus
        ],
    }
