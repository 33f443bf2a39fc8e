"""Agent events in the live view (`palaver tail`)."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.settings import LIVE_TYPE
from bridge.matrix.ghost import address_of
from bridge.observability.live_event import LiveEvent, live_event
from bridge.text.terminal import short

_COMMON: Final = "io.cis.agent."
_GOOD: Final = frozenset({Verdict.TAKEN, Verdict.KEPT, Verdict.REPEATED, Verdict.SENT})


def to_live_event(record: EventRecord, at: int) -> LiveEvent:
    fields = {
        "what": record.verdict.value,
        "direction": "out" if record.is_outgoing else "in",
        "peer": record.peer,
        "event_type": record.type,
        "user": record.user,
        "room_id": record.room_id,
        "subject": record.subject,
        "detail": record.detail,
    }
    sender = None if record.user is None else address_of(record.user)
    subject = [] if record.subject is None else [record.subject]
    agents = [value for value in subject if "@" in value]
    return live_event(
        LIVE_TYPE,
        at,
        fields,
        agents=agents if sender is None else [*agents, str(sender)],
        nodes=[] if record.peer is None else [record.peer],
        tasks=subject,
    )


def line(fields: Mapping[str, Any]) -> str:
    """Return the line shown for an event that `to_live_event` made, decoded from JSON."""
    is_outgoing = fields.get("direction") == "out"
    peer = short(fields.get("peer")) or ("all peers" if is_outgoing else "unknown peer")
    event_type = short(fields.get("event_type")).removeprefix(_COMMON) or "unknown type"
    subject = f" {short(fields.get('subject'))}" if fields.get("subject") else ""
    verdict = str(fields.get("what")).replace("_", " ")
    detail = f" ({short(fields.get('detail'))})" if fields.get("detail") else ""
    return f"{'→' if is_outgoing else '←'} {peer}  {event_type}{subject}: {verdict}{detail}"


def style(fields: Mapping[str, Any]) -> str:
    return "dim" if fields.get("what") in _GOOD else "yellow"
