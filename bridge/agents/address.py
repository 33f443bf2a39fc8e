"""The one name by which any agent can be reached from any protocol: `agent-id@node-id`.

Agent federation 1.0.0, "Agent address format". It forbids nothing but a second `@`; what is forbidden here
beyond that no other node can be told, or no database can keep.
"""

from dataclasses import dataclass
from typing import Final

from federation.matrix.identifiers import MAX_BYTES, has_valid_length

AT: Final = "@"


@dataclass(frozen=True, slots=True)
class NotAnAddress:
    """Why it is none: a sentence for whoever wrote it."""

    reason: str


@dataclass(frozen=True, slots=True, order=True)
class AgentAddress:
    """Both parts are taken as they are: in capitals, or with a blank, it is another agent."""

    agent_id: str
    node_id: str

    @staticmethod
    def parse(text: str) -> "AgentAddress | NotAnAddress":
        # "exactly one `@`, both parts non-empty"
        agent_id, at, node_id = text.partition(AT)
        if not at:
            return NotAnAddress(
                "An address names the agent's node behind an @, as in worker-1@kitchen.local."
            )
        return AgentAddress.of(agent_id, node_id)

    @staticmethod
    def of(agent_id: str, node_id: str) -> "AgentAddress | NotAnAddress":
        reason = wrong_agent_id(agent_id) or wrong_node_id(node_id)
        return AgentAddress(agent_id, node_id) if reason is None else NotAnAddress(reason)

    def __str__(self) -> str:
        return f"{self.agent_id}{AT}{self.node_id}"


@dataclass(frozen=True, slots=True)
class BareId:
    """An agent's id without its node: whose agent it is, the routing table has to say."""

    agent_id: str


def parse_target(text: str) -> AgentAddress | BareId | NotAnAddress:
    """Whom a person or a program names: an address, or the id alone where that is enough."""
    if AT in text:
        return AgentAddress.parse(text)
    reason = wrong_agent_id(text)
    return BareId(text) if reason is None else NotAnAddress(reason)


def wrong_agent_id(text: str) -> str | None:
    """Why no agent can have this id; None if one can."""
    return _wrong(text, "An agent's id")


def wrong_node_id(text: str) -> str | None:
    return _wrong(text, "A node's id")


def _wrong(text: str, what: str) -> str | None:
    if not text:
        return f"{what} is not empty."
    if not has_valid_length(text):
        return f"{what} has at most {MAX_BYTES} bytes."
    if AT in text:
        return f"{what} holds no @."
    if "\0" in text:
        return f"{what} holds no NUL."
    if not is_unicode(text):
        return f"{what} is text that can be written in UTF-8."
    return None


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write it: JSON can hold half of a pair of surrogates, and nothing else can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
