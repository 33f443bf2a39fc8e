"""The id under which another node gets a task of ours.

Tasks are known by their requester's node and its request id, and all that this node passes on go out under
its own name. Those of its own agents keep their id; of others the id says where they come from.
"""

from typing import Final
from urllib.parse import quote, unquote

from bridge.tasks.request import TaskKey
from federation.matrix.identifiers import has_valid_length

_FOREIGN: Final = "via:"


def request_id(key: TaskKey, own_node: str) -> str | None:
    """None for an id that would be too long."""
    if key.node_id == own_node and not key.request_id.startswith(_FOREIGN):
        return key.request_id
    written = f"{_FOREIGN}{quote(key.node_id, safe='')}:{key.request_id}"
    return written if has_valid_length(written) else None


def key_of(written: str, own_node: str) -> TaskKey:
    """Of the task that an answer is for. Whether there is such a task is another question."""
    if not written.startswith(_FOREIGN):
        return TaskKey(own_node, written)
    node_id, _, original = written.removeprefix(_FOREIGN).partition(":")
    return TaskKey(unquote(node_id, errors="replace"), original)
