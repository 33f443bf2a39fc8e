"""`palaver events show` and `palaver rooms dag`: events, and the graph that they make."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.control.server.arguments import Arguments
from bridge.control.server.lookup import find_event, find_room
from federation.events.graph import in_order
from federation.homeserver import Homeserver
from federation.matrix.identifiers import domain
from federation.rooms.receive_checks import KnownEvent
from storage.errors import LocalError
from storage.rooms.events import fetch_redactions
from storage.rooms.inspection import MAX_DEPTH, GraphNode, fetch_graph_nodes, fetch_verdicts, find_references

MOST_LOOKED_AT: Final = 10_000
"""Events behind this one, to find those that name it."""
MOST_FOLLOWERS: Final = 50
MOST_REFERENCES: Final = 50
MOST_REDACTIONS: Final = 20


async def events_show(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """With `raw` the event as it is kept and sent to peers; otherwise as people see it, redactions obeyed."""
    arguments = Arguments(given)
    known = await find_event(homeserver, arguments.text("event"))
    pdu = known.pdu
    [shown] = await homeserver.graph.apply_redactions([pdu])
    view = await homeserver.graph.room(pdu.room_id)
    assert view is not None, "an event is of a room that is here"
    state = await homeserver.graph.current_events(pdu.room_id, [pdu.key] if pdu.key is not None else [])
    prev, auth = pdu.prev_events[:MOST_REFERENCES], pdu.auth_events[:MOST_REFERENCES]
    async with homeserver.database.transaction(readonly=True) as connection:
        behind = await find_references(
            connection,
            pdu.room_id,
            pdu.event_id,
            pdu.depth,
            searched=MOST_LOOKED_AT,
            limit=MOST_FOLLOWERS,
        )
        asked = [redaction for _, redaction in await fetch_redactions(connection, [pdu.event_id])]
        around = await fetch_verdicts(connection, {*prev, *auth})
    redactions = await homeserver.graph.known_events(asked[:MOST_REDACTIONS])
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


DAG_PAGE: Final = 50
MOST_IN_DAG: Final = 1_000


async def rooms_dag(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each event before those that it follows. `beyond` are the events that the last of them follow, with the
    verdict on each, null for one that is not here: a gap. Events without a place in the history are left out.
    """
    arguments = Arguments(given)
    room_id = await find_room(homeserver, arguments.text("room"))
    limit = arguments.number("limit", DAG_PAGE, MOST_IN_DAG)
    depth = await _depth(homeserver, room_id, arguments.optional_text("start"))
    view = await homeserver.graph.room(room_id)
    assert view is not None, "it was found a moment ago, and rooms do not go away"
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
        "extremities": list(view.forward_extremities[:MOST_IN_DAG]),
        "beyond": {event_id: known.get(event_id, (None, False))[0] for event_id in sorted(beyond)},
    }


async def _depth(homeserver: Homeserver, room_id: str, start: str | None) -> int:
    if start is None:
        return MAX_DEPTH
    event = await find_event(homeserver, start)
    if event.pdu.room_id != room_id:
        raise LocalError(
            f"{event.pdu.event_id} is an event of another room, {event.pdu.room_id}.", "Name that."
        )
    return event.pdu.depth


def _newest_first(nodes: list[GraphNode]) -> list[GraphNode]:
    """By the edges: the depth is whatever a sender says."""
    by_id = {node.event_id: node for node in reversed(nodes)}
    order = in_order({event_id: node.prev_events for event_id, node in by_id.items()})
    return [by_id[event_id] for event_id in reversed(order)]


def _shown(node: GraphNode, is_end: bool, following: Mapping[str, int]) -> dict[str, Any]:
    """`followed_by`: how many of those that are shown follow it; more than one is a fork."""
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
