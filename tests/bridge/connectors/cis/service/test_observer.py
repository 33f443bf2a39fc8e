"""Records of agent events in audit, metrics, log and live view."""

from collections.abc import AsyncIterator, Callable

import pytest
from prometheus_client import CollectorRegistry

from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.metrics import CisMetrics
from bridge.connectors.cis.protocol.events import Heartbeat
from bridge.connectors.cis.service.observer import SILENCE_MS, CisObserver
from bridge.observability.live_event import LiveFilter
from bridge.observability.live_feed import LiveFeed
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.federation.audit import AuditRow, AuditSearch
from tests.support.agents import NOW, Clock

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


def observing(trail: AuditTrail, now_ms: Callable[[], int]) -> CisObserver:
    metrics = CisMetrics(CollectorRegistry())
    return CisObserver(metrics, trail, LiveFeed(now_ms=now_ms), lambda sentence, error: None, now_ms=now_ms)


async def _rows(trail: AuditTrail) -> list[AuditRow]:
    """Return the audit rows, oldest first, after all have been written."""
    await trail.close()
    return list(reversed(await trail.search(AuditSearch(), 1_000)))


async def test_a_record_becomes_an_audit_row(trail: AuditTrail, clock: Clock) -> None:
    """With time, peer, act and verdict, written in the background."""
    observer = observing(trail, clock)
    observer.record(EventRecord("living", REQUEST, Verdict.TAKEN, "@boss:living", "!r:here", "req-1"))
    observer.record(EventRecord(None, "io.cis.agent.registered", Verdict.SENT, "@a:here", "!r:here", "a@here"))
    observer.record(EventRecord("living", "x\0y", Verdict.INVALID, detail="INVALID_PAYLOAD: it is wrong."))
    rows = await _rows(trail)
    assert [(row.peer, row.direction, row.act, row.outcome) for row in rows] == [
        ("living", "in", REQUEST, "done"),
        ("*", "out", "io.cis.agent.registered", "done"),
        ("living", "in", "x\ufffdy", "refused"),
    ]
    assert (rows[0].user_id, rows[0].room_id, rows[0].subject) == ("@boss:living", "!r:here", "req-1")
    assert rows[0].at.timestamp() * 1000 == NOW


async def test_only_the_first_heartbeat_after_a_silence_is_audited(trail: AuditTrail, clock: Clock) -> None:
    """For each peer, and separately for refused ones."""
    observer = observing(trail, clock)
    for _ in range(5):
        for peer, verdict in (("living", Verdict.TAKEN), ("attic", Verdict.FORBIDDEN)):
            observer.record(EventRecord(peer, Heartbeat.TYPE, verdict, detail="so"))
        clock.advance(SILENCE_MS)
    clock.advance(1)
    observer.record(EventRecord("living", Heartbeat.TYPE, Verdict.TAKEN))
    rows = await _rows(trail)
    assert [(row.peer, row.outcome) for row in rows] == [("living", "done"), ("attic", "refused"), ("living", "done")]


async def test_equal_refusals_are_merged_into_one_row(trail: AuditTrail, clock: Clock) -> None:
    """So a peer above its rate limit cannot fill the disk."""
    observer = observing(trail, clock)
    for number in range(1_000):
        observer.record(EventRecord("living", REQUEST, Verdict.TOO_FAST, subject=str(number), detail=str(number)))
    rows = await _rows(trail)
    assert len(rows) == 1
    assert rows[0].detail == "rate limit exceeded (1000 times)"


def test_no_metric_label_comes_from_a_peer(trail: AuditTrail, clock: Clock) -> None:
    """Unknown types are counted together."""
    registry = CollectorRegistry()
    feed = LiveFeed(now_ms=clock)
    observer = CisObserver(CisMetrics(registry), trail, feed, lambda sentence, error: None, now_ms=clock)
    for act in (
        EventRecord("a.local", Heartbeat.TYPE, Verdict.TAKEN),
        EventRecord("a.local", "io.cis.agent.flood-1", Verdict.KEPT),
        EventRecord(None, "x" * 1_000, Verdict.FORBIDDEN, detail="The sender is not known."),
    ):
        observer.record(act)
    for type_, verdict in (("heartbeat", "taken"), ("other", "kept"), ("other", "forbidden")):
        labels = {"type": type_, "verdict": verdict}
        assert registry.get_sample_value("palaver_cis_events_total", labels) == 1


async def test_records_appear_in_the_live_view(trail: AuditTrail, clock: Clock) -> None:
    """As `palaver tail` shows them."""
    feed = LiveFeed(now_ms=clock)
    metrics = CisMetrics(CollectorRegistry())
    observer = CisObserver(metrics, trail, feed, lambda sentence, error: None, now_ms=clock)
    with feed.listening(LiveFilter(types=frozenset({"cis"}))) as listener:
        observer.record(EventRecord("living", REQUEST, Verdict.TAKEN))
        assert (await listener.next())["event_type"] == REQUEST
