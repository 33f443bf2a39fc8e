"""`palaver events show`: an event, what this node made of it, and what stands around it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.finding import find_event
from bridge.service.operator.parts import Parts
from federation.identifiers import domain
from federation.known_event import KnownEvent
from storage.inspection import followers, verdicts
from storage.redactions import fetch_redactions

MOST_LOOKED_AT: Final = 10_000
"""Events behind this one, to find those that name it."""
MOST_FOLLOWERS: Final = 50
MOST_REFERENCES: Final = 50
MOST_REDACTIONS: Final = 20


async def events_show(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """With `raw` the event as it is kept and sent to peers; otherwise as people see it, redactions obeyed."""
    arguments = Arguments(given)
    known = await find_event(parts, arguments.text("event"))
    pdu = known.pdu
    [shown] = await parts.graph.shown_to_people([pdu])
    view = await parts.graph.room(pdu.room_id)
    assert view is not None, "an event is of a room that is here"
    state = await parts.graph.current_events(pdu.room_id, [pdu.key] if pdu.key is not None else [])
    prev, auth = pdu.prev_events[:MOST_REFERENCES], pdu.auth_events[:MOST_REFERENCES]
    async with parts.database.transaction(readonly=True) as connection:
        behind = await followers(
            connection,
            pdu.room_id,
            pdu.event_id,
            pdu.depth,
            look_at=MOST_LOOKED_AT,
            limit=MOST_FOLLOWERS,
        )
        asked = [redaction for _, redaction in await fetch_redactions(connection, [pdu.event_id])]
        around = await verdicts(connection, {*prev, *auth})
    redactions = await parts.graph.known_events(asked[:MOST_REDACTIONS])
    return {
        "event_id": pdu.event_id,
        "room_id": pdu.room_id,
        "room_version": view.version.id,
        "sender_server": domain(pdu.sender),
        "signed_by": sorted(pdu.signatures),
        "bytes": len(pdu.canonical),
        "verdict": known.verdict,
        "refusal": known.refusal,
        "is_outlier": known.is_outlier,
        "state_before": known.state_before,
        "state_after": known.state_after,
        "is_current_state": any(event.event_id == pdu.event_id for event in state.values()),
        "is_extremity": pdu.event_id in view.forward_extremities,
        "prev_events": _references(prev, around),
        "auth_events": _references(auth, around),
        "named_by": [
            {"event_id": one.event_id, "as_previous": one.as_previous, "as_auth": one.as_auth}
            for one in behind
        ],
        "redacts": pdu.redacts(view.version),
        "redactions": [_redaction(one) for one in redactions.values()],
        "is_redacted": shown is not pdu,
        "event": pdu.event if arguments.flag("raw") else shown.event,
    }


def _references(event_ids: Iterable[str], known: Mapping[str, tuple[str, bool]]) -> list[dict[str, Any]]:
    """With the verdict on each; None for one that is not here."""
    return [{"event_id": event_id, "verdict": known.get(event_id, (None,))[0]} for event_id in event_ids]


def _redaction(event: KnownEvent) -> dict[str, Any]:
    return {"event_id": event.pdu.event_id, "sender": event.pdu.sender, "verdict": event.verdict}
