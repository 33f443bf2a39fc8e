"""`palaver audit`: the log of requests between servers, and of messages about agents and tasks between
nodes."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from federation.peers.audit_trail import AuditTrail
from storage.federation.audit import AuditRow, AuditSearch

PAGE: Final = 100
MAX_PAGE: Final = 10_000
MAX_SECONDS: Final = 10 * 366 * 24 * 3600


async def audit(trail: AuditTrail, now_ms: int, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entries of the last `seconds`, the newest first."""
    arguments = Arguments(given)
    seconds = arguments.number("seconds", MAX_SECONDS, MAX_SECONDS)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    limit = arguments.number("limit", PAGE, MAX_PAGE)
    wanted = AuditSearch(
        peer=arguments.optional_text("peer"),
        user_id=arguments.optional_text("user"),
        room_id=arguments.optional_text("room"),
        since=None if seconds == MAX_SECONDS else now - timedelta(seconds=seconds),
    )
    found = await trail.search(wanted, limit + 1)
    return {"acts": [_shown(row) for row in found[:limit]], "more": len(found) > limit}


def _shown(row: AuditRow) -> dict[str, Any]:
    return {
        "at": int(row.at.timestamp() * 1000),
        "peer": row.peer,
        "direction": row.direction,
        "act": row.act,
        "outcome": row.outcome,
        "user_id": row.user_id,
        "room_id": row.room_id,
        "subject": row.subject,
        "detail": row.detail,
    }
