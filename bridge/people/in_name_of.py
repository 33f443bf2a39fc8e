"""The person in whose name a task is asked for.

A person asks in a room; or an operator does it on the command line, in the person's name. What others say of
who they are is no word on it: an agent may be called as a person's address is.
"""

from typing import Final

from bridge.people.requester import person_of
from bridge.people.settings import NAME
from bridge.task_request import TaskRequest

OPERATOR: Final = "operator"
"""The protocol in which operators ask."""
_BELIEVED: Final = frozenset({NAME, OPERATOR})


def in_name_of(request: TaskRequest, node_id: str) -> str | None:
    """The user; None for a task that is nobody's but an agent's or the operator's own."""
    if request.origin.protocol not in _BELIEVED:
        return None
    return person_of(request.from_address, node_id)
