"""`palaver rooms dag`: the newest part of a room's event graph."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.finding import find_event, find_room
from bridge.service.operator.parts import Parts
from federation.event_graph import in_order
from storage.errors import LocalError
from storage.inspection import GREATEST_DEPTH, GraphNode, nodes_of_graph, verdicts

PAGE: Final = 50
MOST: Final = 1_000


async def rooms_dag(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Each event before those that it follows. `beyond` are the events that the last of them follow, with the
    verdict on each, null for one that is not here: a gap. Events without a place in the history are left out.
    """
    arguments = Arguments(given)
    room_id = await find_room(parts, arguments.text("room"))
    limit = arguments.number("limit", PAGE, MOST)
    depth = await _depth(parts, room_id, arguments.optional_text("start"))
    view = await parts.graph.room(room_id)
    assert view is not None, "it was found a moment ago, and rooms do not go away"
    async with parts.database.transaction(readonly=True) as connection:
        nodes = await nodes_of_graph(connection, room_id, depth, limit)
        listed = {node.event_id for node in nodes}
        beyond = {prev for node in nodes for prev in node.prev_events} - listed
        known = await verdicts(connection, beyond)
    following = Counter(prev for node in nodes for prev in set(node.prev_events))
    ends = set(view.forward_extremities)
    return {
        "room_id": room_id,
        "events": [_shown(node, node.event_id in ends, following) for node in _newest_first(nodes)],
        "extremities": list(view.forward_extremities[:MOST]),
        "beyond": {event_id: known.get(event_id, (None, False))[0] for event_id in sorted(beyond)},
    }


async def _depth(parts: Parts, room_id: str, start: str | None) -> int:
    if start is None:
        return GREATEST_DEPTH
    event = await find_event(parts, start)
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
