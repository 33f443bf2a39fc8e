"""The search for agents on the command line."""

from dataclasses import dataclass
from typing import Final

from bridge.agents.agent import WIRE_STATUSES, Agent, missing_capabilities

GONE: Final = "gone"
STATUSES: Final = (*sorted(status.value for status in WIRE_STATUSES), GONE)
"""The statuses to search for. A lost agent keeps its last status and counts as gone."""


def display_status(agent: Agent) -> str:
    return agent.status.value if agent.is_online else GONE


@dataclass(frozen=True, slots=True)
class AgentSearch:
    """Criteria; None or empty means any. An agent matches if it has all `capabilities` (with `*` and `?` as
    in a glob), and if each of `words` occurs in its data. Offline agents match only with `with_gone` or by
    status."""

    node: str | None = None
    status: str | None = None
    capabilities: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    with_gone: bool = False

    @staticmethod
    def words_of(text: str) -> tuple[str, ...]:
        return tuple(text.casefold().split())

    def matches(self, agent: Agent) -> bool:
        if self.node is not None and agent.node_id != self.node:
            return False
        if self.status is not None:
            if display_status(agent) != self.status:
                return False
        elif not agent.is_online and not self.with_gone:
            return False
        if self.capabilities and missing_capabilities(agent.capabilities, self.capabilities):
            return False
        return not self.words or self._has_words(agent)

    def _has_words(self, agent: Agent) -> bool:
        texts = (
            str(agent.address),
            agent.runtime,
            agent.current_task or "",
            agent.gone_reason or "",
            display_status(agent),
            *agent.capabilities,
        )
        text = " ".join(texts).casefold()
        return all(word in text for word in self.words)
