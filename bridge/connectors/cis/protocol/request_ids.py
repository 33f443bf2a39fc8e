"""The request ids under which this node sends tasks to other nodes.

A task's key is its requester's node and request id, but this node sends every task under its own name. A task
of a local agent keeps its request id; the id of any other task also contains its requester's node.
"""

from typing import Final
from urllib.parse import quote, unquote

from bridge.tasks.request import TaskKey
from federation.matrix.identifiers import has_valid_length

_FOREIGN: Final = "via:"


def outgoing_request_id(key: TaskKey, own_node: str) -> str | None:
    """Return the request id for another node; None if it would be too long."""
    if key.node_id == own_node and not key.request_id.startswith(_FOREIGN):
        return key.request_id
    request_id = f"{_FOREIGN}{quote(key.node_id, safe='')}:{key.request_id}"
    return request_id if has_valid_length(request_id) else None


def task_key(request_id: str, own_node: str) -> TaskKey:
    """Reverse `outgoing_request_id`. The task need not exist."""
    if not request_id.startswith(_FOREIGN):
        return TaskKey(own_node, request_id)
    node_id, _, original = request_id.removeprefix(_FOREIGN).partition(":")
    return TaskKey(unquote(node_id, errors="replace"), original)
