"""`palaver events show` and `palaver rooms dag`: events and the event graph of a room."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from bridge.control.server.lookup import find_event, find_room
from federation.events.graph import topological_order
from federation.homeserver import Homeserver
from federation.matrix.identifiers import domain
from federation.rooms.receive_checks import KnownEvent
from storage.errors import LocalError
from storage.rooms.events import fetch_redactions
from storage.rooms.inspection import MAX_DEPTH, GraphNode, fetch_graph_nodes, fetch_verdicts, find_references

MAX_SEARCHED: Final = 10_000
"""Maximum number of later events to search for references to an event."""
MAX_FOLLOWERS: Final = 50
MAX_REFERENCES: Final = 50
MAX_REDACTIONS: Final = 20


async def events_show(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event: with `raw` as stored and sent to peers, otherwise as clients see it, after
    redactions."""
    arguments = Arguments(given)
    known = await find_event(homeserver, arguments.text("event"))
    pdu = known.pdu
    [shown] = await homeserver.graph.apply_redactions([pdu])
    view = await homeserver.graph.room(pdu.room_id)
    assert view is not None, "the room of a stored event is stored"
    state = await homeserver.graph.current_events(pdu.room_id, [pdu.key] if pdu.key is not None else [])
    prev, auth = pdu.prev_events[:MAX_REFERENCES], pdu.auth_events[:MAX_REFERENCES]
    async with homeserver.database.transaction(readonly=True) as connection:
        referencing = await find_references(
            connection, pdu.room_id, pdu.event_id, pdu.depth, searched=MAX_SEARCHED, limit=MAX_FOLLOWERS
        )
        redaction_ids = [redaction for _, redaction in await fetch_redactions(connection, [pdu.event_id])]
        known_verdicts = await fetch_verdicts(connection, {*prev, *auth})
    redactions = await homeserver.graph.known_events(redaction_ids[:MAX_REDACTIONS])
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
        "prev_events": _references(prev, known_verdicts),
        "auth_events": _references(auth, known_verdicts),
        "named_by": [
            {"event_id": event.event_id, "as_previous": event.as_previous, "as_auth": event.as_auth}
            for event in referencing
        ],
        "redacts": pdu.redacts(view.version),
        "redactions": [_redaction(event) for event in redactions.values()],
        "is_redacted": shown is not pdu,
        "event": pdu.event if arguments.flag("raw") else shown.event,
    }


def _references(event_ids: Iterable[str], known: Mapping[str, tuple[str, bool]]) -> list[dict[str, Any]]:
    """The events with their verdicts; the verdict of a missing event is None."""
    return [{"event_id": event_id, "verdict": known.get(event_id, (None,))[0]} for event_id in event_ids]


def _redaction(event: KnownEvent) -> dict[str, Any]:
    return {"event_id": event.pdu.event_id, "sender": event.pdu.sender, "verdict": event.verdict}


DAG_PAGE: Final = 50
MAX_IN_DAG: Final = 1_000


async def rooms_dag(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the newest events of a room, each before its prev events. `beyond` are the prev events that are
    not in the list, with their verdicts; null is a missing event, a gap. Outliers are omitted."""
    arguments = Arguments(given)
    room_id = await find_room(homeserver, arguments.text("room"))
    limit = arguments.number("limit", DAG_PAGE, MAX_IN_DAG)
    depth = await _depth(homeserver, room_id, arguments.optional_text("start"))
    view = await homeserver.graph.room(room_id)
    assert view is not None, "find_room has found it, and rooms are never deleted"
    async with homeserver.database.transaction(readonly=True) as connection:
        nodes = await fetch_graph_nodes(connection, room_id, depth, limit)
        listed = {node.event_id for node in nodes}
        beyond = {prev for node in nodes for prev in node.prev_events} - listed
        known = await fetch_verdicts(connection, beyond)
    following = Counter(prev for node in nodes for prev in set(node.prev_events))
    ends = set(view.forward_extremities)
    return {
        "room_id": room_id,
        "events": [_shown(node, node.event_id in ends, following) for node in _newest_first(nodes)],
        "extremities": list(view.forward_extremities[:MAX_IN_DAG]),
        "beyond": {event_id: known.get(event_id, (None, False))[0] for event_id in sorted(beyond)},
    }


async def _depth(homeserver: Homeserver, room_id: str, start: str | None) -> int:
    if start is None:
        return MAX_DEPTH
    event = await find_event(homeserver, start)
    if event.pdu.room_id != room_id:
        raise LocalError(f"{event.pdu.event_id} is an event of another room, {event.pdu.room_id}.", "Use that room.")
    return event.pdu.depth


def _newest_first(nodes: list[GraphNode]) -> list[GraphNode]:
    """Sort by the edges of the graph: the depth is chosen by the sender and cannot be relied on."""
    by_id = {node.event_id: node for node in reversed(nodes)}
    order = topological_order({event_id: node.prev_events for event_id, node in by_id.items()})
    return [by_id[event_id] for event_id in reversed(order)]


def _shown(node: GraphNode, is_end: bool, following: Mapping[str, int]) -> dict[str, Any]:
    """`followed_by` is the number of events in the list that follow this one; more than one is a fork."""
    return {
        "event_id": node.event_id,
        "type": node.type,
        "state_key": node.state_key,
        "sender": node.sender,
        "depth": node.depth,
        "origin_server_ts": node.origin_server_ts,
        "prev_events": list(node.prev_events),
        "verdict": node.verdict,
        "refusal": node.refusal,
        "is_extremity": is_end,
        "followed_by": following.get(node.event_id, 0),
    }
