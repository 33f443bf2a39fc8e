"""Maps people to the addresses under which they request tasks.

A person requests tasks in a room, or an operator does it on the command line in the person's name. Other
nodes see an address of this node: `@alice:example.org` is `alice:example.org@here`. A user id may contain a
second `@`, but an address has only one, so it is escaped, and so is the escape character.

An address alone does not prove that a person has requested a task: an agent may have the same address. Only
the task's protocol does.
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


def requester_address(user: str, node_id: str) -> AgentAddress | InvalidAddress:
    """Return the address of a person, which may be too long to be valid."""
    assert is_user_id(user), "senders have valid user ids"
    agent_id = _ESCAPED.sub(lambda found: f"={ord(found[0]):02x}", user[1:])
    return AgentAddress.of(agent_id, node_id)


def person_of(address: AgentAddress, node_id: str) -> str | None:
    """Return the user id that has this address, or None."""
    if address.node_id != node_id or _STRAY.search(address.agent_id) is not None:
        return None
    user = "@" + _ESCAPE.sub(lambda found: chr(int(found[1], 16)), address.agent_id)
    return user if is_user_id(user) else None


OPERATOR: Final = "operator"
"""The protocol of tasks that an operator requests."""
_PEOPLE_PROTOCOLS: Final = frozenset({NAME, OPERATOR})


def requesting_person(request: TaskRequest, node_id: str) -> str | None:
    """Return the person in whose name the task is requested, or None for a task of an agent or the
    operator."""
    if request.origin.protocol not in _PEOPLE_PROTOCOLS:
        return None
    return person_of(request.from_address, node_id)
