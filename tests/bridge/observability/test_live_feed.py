"""The live feed."""

import asyncio
from functools import partial

from bridge.agents.agent import Agent, AgentStatus
from bridge.agents.routing_table import Change
from bridge.connectors.cis.event_record import EventRecord, Verdict
from bridge.connectors.cis.live import to_live_event
from bridge.observability import live_feed
from bridge.observability.live_event import LiveFilter
from bridge.observability.live_feed import LiveFeed, LiveListener
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import Task
from storage.database import Database
from tests.support.agents import NOW, Clock, registered, routing_table
from tests.support.tasks import request

TASK = Task(request(), NOW, NOW + 1)
ALL = LiveFilter()


def _agent(number: int) -> Agent:
    return Agent(f"worker-{number}", "here", "cis", "", (), AgentStatus.IDLE, None, NOW, NOW, None)


async def _next(listener: LiveListener, count: int) -> list[object]:
    return [(await listener.next())["type"] for _ in range(count)]


async def test_watchers_receive_every_kind() -> None:
    """In order, while they watch."""
    feed = LiveFeed(now_ms=Clock())
    with feed.listening(ALL) as one, feed.listening(ALL) as other:
        feed.changed(TASK)
        feed.progress(TASK, {"message": "halfway"})
        feed.dropped(TASK, DroppedMessage("result", "it is over"))
        feed.show(partial(to_live_event, EventRecord("living", "io.cis.agent.message", Verdict.TAKEN)))
        feed.agents_changed([Change(None, _agent(1)), Change(_agent(1), _agent(1))])
        for listener in (one, other):
            assert await _next(listener, 5) == ["task", "progress", "dropped", "cis", "agent"]
    feed.changed(TASK)
    with feed.listening(ALL) as late:
        feed.show(partial(to_live_event, EventRecord("living", "x", Verdict.KEPT)))
        assert (await late.next())["at"] == NOW
        waiting = asyncio.create_task(late.next())
        feed.changed(TASK)
        assert (await waiting)["type"] == "task"


async def test_filtered_events_do_not_fill_the_queue() -> None:
    """They displace nothing."""
    feed = LiveFeed(now_ms=Clock())
    with feed.listening(LiveFilter(types=frozenset({"cis"})), most=1) as listener:
        feed.show(partial(to_live_event, EventRecord("living", "x", Verdict.KEPT)))
        for _ in range(10):
            feed.changed(TASK)
        assert (await listener.next())["type"] == "cis"


async def test_slow_watcher_receives_the_number_of_skipped_events() -> None:
    """The oldest are skipped; their number precedes the rest."""
    feed = LiveFeed(now_ms=Clock())
    with feed.listening(ALL, most=2) as listener:
        for number in range(5):
            feed.show(partial(to_live_event, EventRecord("living", str(number), Verdict.KEPT)))
        assert await listener.next() == {"type": "left_out", "count": 3}
        assert [(await listener.next())["event_type"] for _ in range(2)] == ["3", "4"]
        feed.changed(TASK)
        assert (await listener.next())["type"] == "task"


async def test_large_batches_are_cut() -> None:
    """A new node with many agents does not block the event loop."""
    feed = LiveFeed(now_ms=Clock())
    with feed.listening(ALL) as listener:
        feed.agents_changed([Change(None, _agent(number)) for number in range(live_feed.MAX_AT_ONCE + 5)])
        first = await listener.next()
        assert first["count"] == live_feed.MAX_AT_ONCE + 5 - live_feed.MAX_WAITING


async def test_agent_changes_of_other_processes(database: Database) -> None:
    """Arrive through the routing table."""
    feed = LiveFeed(now_ms=Clock())
    async with routing_table(database) as routes, routing_table(database) as others:
        end = routes.subscribe(feed.agents_changed)
        with feed.listening(ALL) as listener:
            await others.update([registered("worker@here")])
            data = await listener.next()
        end()
    assert (data["what"], data["agent"]) == ("came", "worker@here")
