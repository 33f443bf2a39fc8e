"""What happens to agents and their tasks, counted and logged, and told to whoever looks on."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog
from prometheus_client import Counter, Histogram

from bridge.agent_metrics import AgentMetrics
from bridge.connectors.cis.act import Act, Verdict
from bridge.connectors.cis.events import EVENTS
from bridge.task import State, Task
from bridge.task_messages import Dropped
from bridge.task_ports import HearsProgress

log = structlog.get_logger("palaver.agents")

OTHER: Final = "other"
KINDS: Final = {type_: type_.rpartition("io.cis.agent.")[2] for type_ in EVENTS}
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
        # Those that have been counted: to look them up by their labels takes longer than to count.
        self._steps: dict[State, Counter] = {}
        self._durations: dict[tuple[State, bool], Histogram] = {}
        self._acts: dict[tuple[str, Verdict], Counter] = {}

    def changed(self, task: Task) -> None:
        steps = self._steps.get(task.state)
        if steps is None:
            steps = self._steps[task.state] = self._metrics.steps.labels(task.state.value)
        steps.inc()
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
        kind = KINDS.get(act.type, OTHER)
        acts = self._acts.get((kind, act.verdict))
        if acts is None:
            acts = self._acts[kind, act.verdict] = self._metrics.acts.labels(kind, act.verdict.value)
        acts.inc()
        if act.verdict in REFUSED:
            said = "An event of ours was not taken." if act.is_ours else "An event was refused."
            log.info(said, peer=act.peer, type=act.type[:100], verdict=act.verdict.value, reason=act.detail)
        for one in self._onlookers:
            one.acted(act)

    def problem(self, sentence: str, error: BaseException | None) -> None:
        log.error(sentence, exc_info=error)

    def _ended(self, task: Task, at: int) -> None:
        durations = self._durations.get((task.state, task.elsewhere))
        if durations is None:
            where = "elsewhere" if task.elsewhere else "here"
            durations = self._metrics.durations.labels(task.state.value, where)
            self._durations[task.state, task.elsewhere] = durations
        durations.observe(max(0, at - task.received_at) / 1000)
        if task.state is not State.DONE:
            code = None if task.answer is None else task.answer.error_code
            self._metrics.failures.labels(code.value if code is not None else OTHER).inc()
