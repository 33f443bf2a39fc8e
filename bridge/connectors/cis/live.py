"""What nodes tell each other of agents and tasks, for those who watch a node."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.connectors.cis.acts import Act, Verdict
from bridge.matrix.ghost import address_of
from bridge.observability.live_event import LiveEvent, live_event
from bridge.text.terminal import short

TYPE: Final = "cis"
_COMMON: Final = "io.cis.agent."
_GOOD: Final = frozenset({Verdict.TAKEN, Verdict.KEPT, Verdict.REPEATED, Verdict.SENT})


def of_act(act: Act, at: int) -> LiveEvent:
    said = {
        "what": act.verdict.value,
        "direction": "out" if act.is_ours else "in",
        "peer": act.peer,
        "event_type": act.type,
        "user": act.user,
        "room_id": act.room_id,
        "subject": act.subject,
        "detail": act.detail,
    }
    sender = None if act.user is None else address_of(act.user)
    subject = [] if act.subject is None else [act.subject]
    named = [one for one in subject if "@" in one]
    return live_event(
        TYPE,
        at,
        said,
        agents=named if sender is None else [*named, str(sender)],
        nodes=[] if act.peer is None else [act.peer],
        tasks=subject,
    )


def line(said: Mapping[str, Any]) -> str:
    """Of what `of_act` makes, as JSON."""
    is_ours = said.get("direction") == "out"
    peer = short(said.get("peer")) or ("everybody" if is_ours else "somebody")
    event_type = short(said.get("event_type")).removeprefix(_COMMON) or "something"
    subject = f" {short(said.get('subject'))}" if said.get("subject") else ""
    verdict = str(said.get("what")).replace("_", " ")
    detail = f" ({short(said.get('detail'))})" if said.get("detail") else ""
    return f"{'→' if is_ours else '←'} {peer}  {event_type}{subject}: {verdict}{detail}"


def style(said: Mapping[str, Any]) -> str:
    return "dim" if said.get("what") in _GOOD else "yellow"
