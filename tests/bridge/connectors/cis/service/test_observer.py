"""What nodes of agents do to each other, in the audit."""

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
    """The oldest first, once all is written."""
    await trail.close()
    return list(reversed(await trail.search(AuditSearch(), 1_000)))


async def test_an_act_is_a_row(trail: AuditTrail, clock: Clock) -> None:
    """When, who, what, verdict; without anybody having waited for it."""
    observer = observing(trail, clock)
    observer.record(EventRecord("living", REQUEST, Verdict.TAKEN, "@boss:living", "!r:here", "req-1"))
    observer.record(
        EventRecord(None, "io.cis.agent.registered", Verdict.SENT, "@a:here", "!r:here", "a@here")
    )
    observer.record(EventRecord("living", "x\0y", Verdict.INVALID, detail="INVALID_PAYLOAD: it is wrong."))
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
    observer = observing(trail, clock)
    for _ in range(5):
        for peer, verdict in (("living", Verdict.TAKEN), ("attic", Verdict.FORBIDDEN)):
            observer.record(EventRecord(peer, Heartbeat.TYPE, verdict, detail="so"))
        clock.advance(SILENCE_MS)
    clock.advance(1)
    observer.record(EventRecord("living", Heartbeat.TYPE, Verdict.TAKEN))
    rows = await _rows(trail)
    assert [(row.peer, row.outcome) for row in rows] == [
        ("living", "done"),
        ("attic", "refused"),
        ("living", "done"),
    ]


async def test_the_same_refusal_over_and_over_is_one_row(trail: AuditTrail, clock: Clock) -> None:
    """A peer that asks too fast does not fill the disk by it."""
    observer = observing(trail, clock)
    for number in range(1_000):
        observer.record(
            EventRecord("living", REQUEST, Verdict.TOO_FAST, subject=str(number), detail=str(number))
        )
    rows = await _rows(trail)
    assert len(rows) == 1
    assert rows[0].detail == "rate limit exceeded (1000 times)"


def test_no_label_is_taken_from_a_peer(trail: AuditTrail, clock: Clock) -> None:
    """A type that nobody knows is counted with all others of its kind."""
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


async def test_who_watches_is_shown_it(trail: AuditTrail, clock: Clock) -> None:
    """As `palaver tail` does."""
    feed = LiveFeed(now_ms=clock)
    metrics = CisMetrics(CollectorRegistry())
    observer = CisObserver(metrics, trail, feed, lambda sentence, error: None, now_ms=clock)
    with feed.listening(LiveFilter(types=frozenset({"cis"}))) as listener:
        observer.record(EventRecord("living", REQUEST, Verdict.TAKEN))
        assert (await listener.next())["event_type"] == REQUEST
