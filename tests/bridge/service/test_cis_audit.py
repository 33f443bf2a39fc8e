"""What nodes of agents do to each other, in the audit."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from bridge.connectors.cis.act import Act, Verdict
from bridge.connectors.cis.events import Heartbeat
from bridge.service.cis_audit import SILENCE_MS, CisAudit
from bridge.task import Task
from bridge.task_messages import Dropped
from federation.service.audit import AuditTrail
from storage.audit import AuditRow, AuditSearch
from storage.database import Database
from tests.support.agents import NOW, Clock
from tests.support.desk import request

REQUEST = "io.cis.agent.task.request"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def trail(database: Database, clock: Clock) -> AsyncIterator[AuditTrail]:
    one = AuditTrail(database, now_ms=clock)
    one.start()
    try:
        yield one
    finally:
        await one.close()


async def _rows(trail: AuditTrail) -> list[AuditRow]:
    """The oldest first, once all is written."""
    await trail.close()
    return list(reversed(await trail.search(AuditSearch(), 1_000)))


async def test_an_act_is_a_row(trail: AuditTrail, clock: Clock) -> None:
    """When, who, what, verdict; without anybody having waited for it."""
    observer = CisAudit(trail, now_ms=clock)
    observer.acted(Act("living", REQUEST, Verdict.TAKEN, "@boss:living", "!r:here", "req-1"))
    observer.acted(Act(None, "io.cis.agent.registered", Verdict.SENT, "@a:here", "!r:here", "a@here"))
    observer.acted(Act("living", "x\0y", Verdict.INVALID, detail="INVALID_PAYLOAD: it is wrong."))
    rows = await _rows(trail)
    assert [(row.peer, row.direction, row.act, row.outcome) for row in rows] == [
        ("living", "in", REQUEST, "done"),
        ("*", "out", "io.cis.agent.registered", "done"),
        ("living", "in", "x\ufffdy", "refused"),
    ]
    assert (rows[0].user_id, rows[0].room_id, rows[0].subject) == ("@boss:living", "!r:here", "req-1")
    assert rows[0].at.timestamp() * 1000 == NOW


async def test_of_heartbeats_only_the_first_after_a_silence(trail: AuditTrail, clock: Clock) -> None:
    """Of each node, and apart for those that are refused: it is told that they come, and not each of them."""
    observer = CisAudit(trail, now_ms=clock)
    for _ in range(5):
        for peer, verdict in (("living", Verdict.TAKEN), ("attic", Verdict.FORBIDDEN)):
            observer.acted(Act(peer, Heartbeat.TYPE, verdict, detail="so"))
        clock.advance(SILENCE_MS)
    clock.advance(1)
    observer.acted(Act("living", Heartbeat.TYPE, Verdict.TAKEN))
    rows = await _rows(trail)
    assert [(row.peer, row.outcome) for row in rows] == [
        ("living", "done"),
        ("attic", "refused"),
        ("living", "done"),
    ]


async def test_a_word_that_is_not_taken_is_a_row(trail: AuditTrail, clock: Clock) -> None:
    """Of an agent of another node. What agents of this one say too late concerns nobody else."""
    observer = CisAudit(trail, now_ms=clock)
    task = Task(request(to="worker@there"), NOW, NOW + 1, elsewhere=True)
    observer.dropped(task, Dropped("result", "the task is done already"))
    observer.dropped(replace(task, elsewhere=False), Dropped("result", "the task is done already"))
    observer.dropped(None, Dropped("result", "no such task is known"))
    observer.changed(task)
    [row] = await _rows(trail)
    assert (row.peer, row.act, row.outcome, row.subject) == ("there", "task", "refused", "req-1@living")
    assert row.detail == "result of worker@there is not taken: the task is done already"


async def test_the_same_refusal_over_and_over_is_one_row(trail: AuditTrail, clock: Clock) -> None:
    """A peer that asks too fast does not fill the disk by it."""
    observer = CisAudit(trail, now_ms=clock)
    for number in range(1_000):
        observer.acted(Act("living", REQUEST, Verdict.TOO_FAST, subject=str(number), detail=str(number)))
    rows = await _rows(trail)
    assert len(rows) == 1
    assert rows[0].detail == "too much at once (1000 times)"
