"""What the agents of this node do, held to the table of `bridge.agents.agent`, and said to everybody."""

from collections.abc import Callable, Sequence

from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus, StatusInput, next_status
from bridge.agents.news import StatusSaid
from bridge.agents.routing_table import Change, RoutingTable
from bridge.tasks.queue_settings import SettingsOf


class AgentStatuses:
    """The task service reports when agents begin tasks and have none left, connectors when an agent fails,
    recovers or is shut down. A status is written a moment later: until it comes back, it is known here."""

    def __init__(self, routes: RoutingTable, *, settings_of: SettingsOf, now_ms: Callable[[], int]) -> None:
        self._routes = routes
        self._settings_of = settings_of
        self._now_ms = now_ms
        self._said: dict[AgentAddress, StatusSaid] = {}
        self._end = routes.subscribe(self._changed)

    def close(self) -> None:
        self._end()

    def take(self, agent: AgentAddress, message: StatusInput, task_id: str | None = None) -> bool:
        """Whether the table has such a step. An agent that takes as many tasks as come is never busy."""
        known = self._routes.agent(agent)
        if known is None or not known.is_here or agent.node_id != self._routes.node_id:
            return False
        has_work = message in {StatusInput.START, StatusInput.COMPLETE}
        if has_work and self._settings_of(known).at_once is None:
            return False
        said = self._said.get(agent)
        status = next_status(known.status if said is None else said.status, message)
        if status is None:
            return False
        at_ms = self._now_ms() if said is None else max(said.sent_at, self._now_ms())
        task = task_id if status is AgentStatus.BUSY else None
        news = StatusSaid(agent, status, task, at_ms, of_its_tasks=has_work)
        self._said[agent] = news
        self._routes.say(news)
        return True

    def _changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            agent = change.after or change.before
            assert agent is not None, "something changed"
            said = self._said.get(agent.address)
            if said is not None and (not agent.is_here or agent.sent_at >= said.sent_at):
                del self._said[agent.address]
