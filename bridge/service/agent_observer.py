"""What happens to agents and their tasks, counted and logged, and told to whoever looks on."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from bridge.agent_metrics import AgentMetrics
from bridge.connectors.cis.act import Act, Verdict
from bridge.connectors.cis.events import EVENTS
from bridge.task import State, Task
from bridge.task_messages import Dropped
from bridge.task_ports import HearsProgress

log = structlog.get_logger("palaver.agents")

OTHER: Final = "other"
REFUSED: Final[Collection[Verdict]] = frozenset(
    {Verdict.INVALID, Verdict.FORBIDDEN, Verdict.TOO_LARGE, Verdict.FAILED}
)


class Onlooker(Protocol):
    """Is told the same."""

    def changed(self, task: Task) -> None: ...

    def dropped(self, task: Task | None, dropped: Dropped) -> None: ...

    def acted(self, act: Act) -> None: ...


class AgentObserver:
    """Satisfies `bridge.task_ports.TaskObserver` and `HearsProgress`, and
    `bridge.connectors.cis.act.CisObserver`."""

    def __init__(self, metrics: AgentMetrics, onlookers: Sequence[Onlooker] = ()) -> None:
        self._metrics = metrics
        self._onlookers = onlookers
        self._hearers = [one for one in onlookers if isinstance(one, HearsProgress)]

    def changed(self, task: Task) -> None:
        self._metrics.steps.labels(task.state.value).inc()
        if task.state.is_final and task.finished_at is not None:
            self._ended(task, task.finished_at)
        for one in self._onlookers:
            one.changed(task)

    def dropped(self, task: Task | None, dropped: Dropped) -> None:
        self._metrics.dropped.inc()
        key = None if task is None else str(task.key)
        log.info("Something was said of a task and not taken.", task=key, what=dropped.what, why=dropped.why)
        for one in self._onlookers:
            one.dropped(task, dropped)

    def heard(self, task: Task, content: Mapping[str, Any]) -> None:
        for one in self._hearers:
            one.heard(task, content)

    def acted(self, act: Act) -> None:
        kind = act.type.rpartition("io.cis.agent.")[2] if act.type in EVENTS else OTHER
        self._metrics.acts.labels(kind, act.verdict.value).inc()
        if act.verdict in REFUSED:
            said = "An event of ours was not taken." if act.is_ours else "An event was refused."
            log.info(said, peer=act.peer, type=act.type[:100], verdict=act.verdict.value, reason=act.detail)
        for one in self._onlookers:
            one.acted(act)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)

    def _ended(self, task: Task, at: int) -> None:
        where = "elsewhere" if task.elsewhere else "here"
        self._metrics.durations.labels(task.state.value, where).observe(max(0, at - task.received_at) / 1000)
        if task.state is not State.DONE:
            code = None if task.answer is None else task.answer.error_code
            self._metrics.failures.labels(code.value if code is not None else OTHER).inc()
