"""The person in whose name a task is asked for.

A person asks in a room; or an operator does it on the command line, in the person's name. What others say of
who they are is no word on it: an agent may be called as a person's address is.

The address under which a person asks for work.

Whoever asks another node for something does it as somebody of this one: `@alice:example.org` is
`alice:example.org@here`, and back. A user id may hold an `@` behind its first one, and addresses hold one
alone; so that is escaped, and so is the sign that escapes.
"""

import re
from typing import Final

from bridge.agents.address import AgentAddress, InvalidAddress
from bridge.people.settings import NAME
from bridge.tasks.request import TaskRequest
from federation.matrix.identifiers import is_user_id

_ESCAPED: Final = re.compile(r"[=@]")
_ESCAPE: Final = re.compile(r"=(3d|40)")
_STRAY: Final = re.compile(r"=(?!3d|40)")


def requester(user: str, node_id: str) -> AgentAddress | InvalidAddress:
    assert is_user_id(user), "no other user can say anything"
    agent_id = _ESCAPED.sub(lambda found: f"={ord(found[0]):02x}", user[1:])
    return AgentAddress.of(agent_id, node_id)


def person_of(address: AgentAddress, node_id: str) -> str | None:
    """The user who has this address; None if nobody has."""
    if address.node_id != node_id or _STRAY.search(address.agent_id) is not None:
        return None
    user = "@" + _ESCAPE.sub(lambda found: chr(int(found[1], 16)), address.agent_id)
    return user if is_user_id(user) else None


OPERATOR: Final = "operator"
"""The protocol in which operators ask."""
_BELIEVED: Final = frozenset({NAME, OPERATOR})


def in_name_of(request: TaskRequest, node_id: str) -> str | None:
    """The user; None for a task that is nobody's but an agent's or the operator's own."""
    if request.origin.protocol not in _BELIEVED:
        return None
    return person_of(request.from_address, node_id)
