"""Which agents somebody at the command line wants to see."""

from dataclasses import dataclass
from typing import Final

from bridge.agents.agent import WIRE_STATUSES, Agent, missing

GONE: Final = "gone"
STATUSES: Final = (*sorted(status.value for status in WIRE_STATUSES), GONE)
"""By which they can be looked for. An agent that is lost has the status that it had last, and is gone."""


def shown_status(agent: Agent) -> str:
    return agent.status.value if agent.is_here else GONE


@dataclass(frozen=True, slots=True)
class AgentSearch:
    """What is None or empty is not looked at. `capabilities`: all of them, `*` and `?` as in a glob; `words`:
    all of them, somewhere in what is known of the agent. Those that are gone only if that is said."""

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
            if shown_status(agent) != self.status:
                return False
        elif not agent.is_here and not self.with_gone:
            return False
        if self.capabilities and missing(agent.capabilities, self.capabilities):
            return False
        return not self.words or self._has_words(agent)

    def _has_words(self, agent: Agent) -> bool:
        texts = (
            str(agent.address),
            agent.runtime,
            agent.current_task or "",
            agent.gone_reason or "",
            shown_status(agent),
            *agent.capabilities,
        )
        text = " ".join(texts).casefold()
        return all(word in text for word in self.words)
