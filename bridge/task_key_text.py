"""What a task is called on the command line: the id of its request, and the node that asked behind an @.

The id of a request may hold an @ itself, the id of a node never does: the last one is what counts.
"""

from bridge.address import AT, wrong_node_id
from bridge.task_request import TaskKey


def key_text(key: TaskKey) -> str:
    return f"{key.request_id}{AT}{key.node_id}"


def read_key(text: str) -> TaskKey | None:
    """None for what can only be the id of a request, or of a task, without its node."""
    request_id, at, node_id = text.rpartition(AT)
    if not at or not request_id or wrong_node_id(node_id) is not None:
        return None
    return TaskKey(node_id, request_id)
