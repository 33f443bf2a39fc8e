"""Writes what nodes of agents do to each other into the audit: who, what, with what verdict, and when.

It goes the way of everything else there: rows are gathered for a moment and written many at once, with a
limit to what waits, and whoever tells of an act waits for nothing. Heartbeats would fill the audit, so of
each node only the first after a silence is written: that it is there again, or is refused.
"""

from collections.abc import Callable
from typing import Final

from bridge.connectors.cis.act import Act, Verdict
from bridge.connectors.cis.audit_entry import entry_of
from bridge.connectors.cis.events import Heartbeat
from bridge.task import Task
from bridge.task_key_text import key_text
from bridge.task_messages import Dropped
from federation import audit
from federation.audit import Direction, Ending, Entry, Named
from federation.bounded_cache import BoundedCache
from federation.service.audit import AuditTrail

SILENCE_MS: Final = 120_000
MOST_NODES: Final = 10_000
NOT_TAKEN: Final = "task"
"""What was done, of a word on a task that came too late or from somebody else."""


class CisAudit:
    """Told what the CIS connector and the desk of tasks are told: `acted`, `dropped`, `changed`."""

    def __init__(self, trail: AuditTrail, *, now_ms: Callable[[], int]) -> None:
        self._trail = trail
        self._now_ms = now_ms
        self._beats: BoundedCache[tuple[str | None, Verdict], int] = BoundedCache(MOST_NODES)

    def acted(self, act: Act) -> None:
        now_ms = self._now_ms()
        if act.type != Heartbeat.TYPE or self._is_first(act, now_ms):
            self._trail.note(entry_of(act, now_ms))

    def changed(self, task: Task) -> None:
        """That a task goes on here is nothing that a node did to another; what it was told is an act."""

    def dropped(self, task: Task | None, dropped: Dropped) -> None:
        """ "A late answer is audited and dropped". What agents of this node say is nobody's business but
        ours; of a task that is not known it is not known either whose word it was."""
        if task is None or not task.elsewhere:
            return
        request = task.request
        named = Named(None, None, audit.cut(key_text(request.key)))
        detail = audit.cut_detail(f"{dropped.what} of {request.to_address} is not taken: {dropped.why}")
        peer = audit.cut(request.to_address.node_id)
        self._trail.note(Entry(self._now_ms(), peer, Direction.IN, NOT_TAKEN, Ending.REFUSED, named, detail))

    def _is_first(self, act: Act, now_ms: int) -> bool:
        key = act.peer, act.verdict
        last = self._beats.get(key)
        self._beats.put(key, now_ms)
        return last is None or now_ms - last > SILENCE_MS
