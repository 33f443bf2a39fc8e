"""The address by which every protocol reaches an agent: `agent-id@node-id`.

Agent federation 1.0.0, "Agent address format", forbids only a second `@`. The further rules here exclude what
other nodes could not receive or a database could not store.
"""

from dataclasses import dataclass
from typing import Final

from federation.matrix.identifiers import MAX_BYTES, has_valid_length, unescape

AT: Final = "@"


@dataclass(frozen=True, slots=True)
class InvalidAddress:
    """The text is not an address. `reason` is a sentence for its author."""

    reason: str


@dataclass(frozen=True, slots=True, order=True)
class AgentAddress:
    """Both parts are compared as written: with other capitals or a space it is another agent."""

    agent_id: str
    node_id: str

    @staticmethod
    def parse(text: str) -> "AgentAddress | InvalidAddress":
        # "exactly one `@`, both parts non-empty"
        agent_id, at, node_id = text.partition(AT)
        if not at:
            return InvalidAddress("An address is an agent id, an @ and a node id, as in worker-1@kitchen.local.")
        return AgentAddress.of(agent_id, node_id)

    @staticmethod
    def of(agent_id: str, node_id: str) -> "AgentAddress | InvalidAddress":
        reason = agent_id_problem(agent_id) or node_id_problem(node_id)
        return AgentAddress(agent_id, node_id) if reason is None else InvalidAddress(reason)

    def __str__(self) -> str:
        return f"{self.agent_id}{AT}{self.node_id}"


@dataclass(frozen=True, slots=True)
class BareAgentId:
    """An agent id without a node. The routing table finds the node."""

    agent_id: str


def parse_target(text: str) -> AgentAddress | BareAgentId | InvalidAddress:
    """Parse the target that a person or a program names: an address, the user id of an agent's user, or an
    agent id alone."""
    if text.startswith(AT) and ":" in text:
        name, _, server = text[1:].partition(":")
        return AgentAddress.of(unescape(name) or name, server)
    if AT in text:
        return AgentAddress.parse(text)
    reason = agent_id_problem(text)
    return BareAgentId(text) if reason is None else InvalidAddress(reason)


def agent_id_problem(text: str) -> str | None:
    """Why the text cannot be an agent id; None if it can."""
    return _wrong(text, "An agent's id")


def node_id_problem(text: str) -> str | None:
    return _wrong(text, "A node's id")


def _wrong(text: str, what: str) -> str | None:
    if not text:
        return f"{what} must not be empty."
    if not has_valid_length(text):
        return f"{what} must have at most {MAX_BYTES} bytes."
    if AT in text:
        return f"{what} must not contain an @."
    if "\0" in text:
        return f"{what} must not contain NUL."
    if not is_unicode(text):
        return f"{what} must be valid Unicode."
    return None


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode the text. JSON can contain unpaired surrogates, which UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
