"""The statuses of this node's agents: kept to the transition table in `bridge.agents.agent`, and
published."""

from collections.abc import Callable, Sequence

from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus, StatusInput, next_status
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.updates import StatusUpdate
from bridge.tasks.queue_settings import SettingsOf


class AgentStatuses:
    """The task service reports when agents start tasks and have none left; connectors report when an agent
    fails, recovers or is shut down. Statuses are written behind; until the routing table has them they are
    kept here."""

    def __init__(self, routes: RoutingTable, *, settings_of: SettingsOf, now_ms: Callable[[], int]) -> None:
        self._routes = routes
        self._settings_of = settings_of
        self._now_ms = now_ms
        self._pending: dict[AgentAddress, StatusUpdate] = {}
        self._unsubscribe = routes.subscribe(self._changed)

    def close(self) -> None:
        self._unsubscribe()

    def apply(self, agent: AgentAddress, message: StatusInput, task_id: str | None = None) -> bool:
        """Apply an event. False if the transition table has no such step. An agent without a limit of
        concurrent tasks is never busy."""
        known = self._routes.agent(agent)
        if known is None or not known.is_online or agent.node_id != self._routes.node_id:
            return False
        has_work = message in {StatusInput.START, StatusInput.COMPLETE}
        if has_work and self._settings_of(known).parallel is None:
            return False
        pending = self._pending.get(agent)
        status = next_status(known.status if pending is None else pending.status, message)
        if status is None:
            return False
        at_ms = self._now_ms() if pending is None else max(pending.sent_at, self._now_ms())
        task = task_id if status is AgentStatus.BUSY else None
        update = StatusUpdate(agent, status, task, at_ms, from_tasks=has_work)
        self._pending[agent] = update
        self._routes.update_later(update)
        return True

    def _changed(self, changes: Sequence[Change]) -> None:
        for change in changes:
            agent = change.after or change.before
            assert agent is not None, "a change has an agent"
            pending = self._pending.get(agent.address)
            if pending is not None and (not agent.is_online or agent.sent_at >= pending.sent_at):
                del self._pending[agent.address]
