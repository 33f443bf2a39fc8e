"""The routing table that several processes share."""

import asyncio
from collections.abc import Sequence

import pytest

import storage.agents.agents
from bridge.agents.agent import AgentStatus
from bridge.agents.routing import Local, Remote, Unknown
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.updates import (
    AgentHeartbeat,
    HeartbeatRecorded,
    NodeHeartbeat,
    StatusUpdate,
    Unregistration,
    Updated,
)
from bridge.tasks.errors import ErrorCode
from storage.agents.agents import Changes
from storage.database import Connection, Database
from tests.support.agents import NOW, Clock, address, registered, routing_table
from tests.support.postgres import end_sessions

BUSY = AgentStatus.BUSY


class ChangeListener:
    """Collects changes, and lets a test wait for one."""

    def __init__(self, routes: RoutingTable) -> None:
        self.heard: asyncio.Queue[Change] = asyncio.Queue()
        self.end = routes.subscribe(self.hear)

    def hear(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.heard.put_nowait(change)


async def test_an_update_is_visible_on_return(database: Database) -> None:
    """The next task may be for the agent."""
    async with routing_table(database) as routes:
        await routes.set_node("kitchen", "http://kitchen:7676", trusted=True)
        await routes.update([registered("w@kitchen"), registered("me@here")])
        assert routes.route("w") == Remote(address("w@kitchen"), "http://kitchen:7676")
        assert routes.route("me@here") == Local(address("me@here"))
        assert "http://kitchen:7676" in routes.explain("w")
        agent = routes.agent(address("w@kitchen"))
        assert agent is not None
        assert agent.runtime == "claude"


async def test_distrust_takes_effect_on_return(database: Database) -> None:
    """Its agents are offline. Trusted again, it reports them anew."""
    async with routing_table(database) as routes:
        await routes.set_node("kitchen", None, trusted=True)
        await routes.update([registered("w@kitchen"), NodeHeartbeat("kitchen", NOW)])
        await routes.set_node("kitchen", None, trusted=False)
        route = routes.route("w@kitchen")
        assert isinstance(route, Unknown)
        assert (route.code, route.reason) == (
            ErrorCode.NODE_UNREACHABLE,
            "This node does not exchange agents with kitchen.",
        )
        await routes.set_node("kitchen", None, trusted=True)
        await routes.update([NodeHeartbeat("kitchen", NOW + 1, {"w": BUSY})])
        assert routes.route("w@kitchen") == Remote(address("w@kitchen"), None)


async def test_agents_are_loaded_after_a_restart(database: Database) -> None:
    """The state is in Postgres, not in a process."""
    async with routing_table(database) as routes:
        await routes.update([registered("w@kitchen"), NodeHeartbeat("kitchen", NOW + 5)])
    async with routing_table(database) as again:
        agent = again.agent(address("w@kitchen"))
        assert agent is not None
        assert again.table.last_seen(agent) == NOW


async def test_updates_of_another_process_are_followed(database: Database) -> None:
    """By a notification: without it this would take an hour here."""
    async with routing_table(database) as one, routing_table(database) as other:
        ear = ChangeListener(other)
        await one.update([registered("w@kitchen")])
        new = await ear.heard.get()
        assert (new.before, new.after) == (None, one.agent(address("w@kitchen")))
        await one.update([Unregistration(address("w@kitchen"), "shutdown", NOW + 1)])
        gone = await ear.heard.get()
        assert gone.before == new.after
        assert gone.after is not None
        assert gone.after.gone_reason == "shutdown"
        assert isinstance(other.route("w"), Unknown)


async def test_changes_during_a_disconnection_are_loaded(database: Database) -> None:
    """Notifications are lost meanwhile, so the table is read again."""
    async with routing_table(database) as routes, routing_table(database) as other:
        ear = ChangeListener(routes)
        await other.update([registered("v@kitchen")])
        await ear.heard.get()
        await end_sessions(database)
        await other.update([registered("w@kitchen")])
        change = await ear.heard.get()
    assert change.after is not None
    assert change.after.agent_id == "w"


async def test_a_change_without_a_notification_is_found(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed between its commit and its notification sends none."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.05)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.05)
    async with routing_table(database) as routes:
        ear = ChangeListener(routes)
        killed = RoutingTable("here", database, now_ms=Clock())
        async with database.transaction() as connection:
            await killed.apply(connection, [registered("w@kitchen")])
        change = await ear.heard.get()
    assert change.after is not None


async def test_following_continues_after_an_error(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is reported."""
    list_changes = storage.agents.agents.list_changes
    failed = asyncio.Event()

    async def fail_once(connection: Connection, horizon: int | None) -> Changes:
        monkeypatch.setattr("storage.agents.agents.list_changes", list_changes)
        failed.set()
        raise ValueError("broken")

    async with routing_table(database) as routes:
        ear = ChangeListener(routes)
        monkeypatch.setattr("storage.agents.agents.list_changes", fail_once)
        await end_sessions(database)
        await failed.wait()
        async with routing_table(database) as other:
            await other.update([registered("w@kitchen")])
            change = await ear.heard.get()
    assert change.after is not None


async def test_a_rolled_back_update_has_no_effect(database: Database) -> None:
    """The update and the reader's position are committed together or not at all."""
    async with routing_table(database) as routes:
        try:
            async with database.transaction() as connection:
                await routes.apply(connection, [registered("w@kitchen")])
                raise KeyError
        except KeyError:
            await routes.refresh()
        assert routes.agent(address("w@kitchen")) is None


async def test_a_heartbeat_without_changes_sends_no_notification(database: Database) -> None:
    """One row for each node and interval."""
    clock = Clock()
    async with routing_table(database, now_ms=clock) as routes:
        await routes.update([registered("w@kitchen")])
        ear = ChangeListener(routes)
        clock.advance(30_000)
        verdicts = await routes.update([NodeHeartbeat("kitchen", NOW + 1, {"w": AgentStatus.IDLE})])
        assert verdicts == [HeartbeatRecorded()]
        agent = routes.agent(address("w@kitchen"))
        assert agent is not None
        assert routes.table.last_seen(agent) == NOW + 30_000
        assert ear.heard.empty()


async def test_deferred_updates_are_written_behind(database: Database) -> None:
    """The newest of each agent; a heartbeat keeps the agent's current task."""
    w = address("w@here")
    async with routing_table(database) as routes, routing_table(database) as other:
        await routes.update([registered("w@here")])
        ear = ChangeListener(other)
        routes.update_later(StatusUpdate(w, AgentStatus.IDLE, None, NOW + 1))
        routes.update_later(StatusUpdate(w, BUSY, "t", NOW + 2))
        routes.update_later(AgentHeartbeat(w, BUSY, NOW + 3))
        routes.update_later(StatusUpdate(w, AgentStatus.ERROR, None, NOW + 1))
        agent = None
        while agent is None or agent.status is not BUSY:
            agent = (await ear.heard.get()).after
        assert (agent.current_task, agent.sent_at) == ("t", NOW + 3)


async def test_deferred_updates_are_written_at_the_end(database: Database) -> None:
    """An orderly stop loses nothing."""
    async with routing_table(database) as routes:
        await routes.update([registered("w@here")])
        routes.update_later(StatusUpdate(address("w@here"), BUSY, "t", NOW + 2))
    async with routing_table(database) as again:
        agent = again.agent(address("w@here"))
        assert agent is not None
        assert agent.status is BUSY


async def test_a_failing_listener_does_not_affect_others(database: Database) -> None:
    """And a listener that was removed is not called."""
    reports: list[str] = []
    async with routing_table(database, report=lambda sentence, error: reports.append(sentence)) as routes:

        def fail(changes: Sequence[Change]) -> None:
            raise KeyError

        routes.subscribe(fail)
        ear, deaf = ChangeListener(routes), ChangeListener(routes)
        deaf.end()
        deaf.end()
        await routes.update([registered("w@here")])
        assert ear.heard.qsize() == 1
        assert deaf.heard.empty()
        assert len(reports) == 1


async def test_offline_agents_are_pruned_from_memory(database: Database) -> None:
    """Not before their time."""
    clock = Clock()
    async with routing_table(database, now_ms=clock) as routes:
        await routes.update([registered("w@a"), registered("v@a"), Unregistration(address("w@a"), "x", NOW + 1)])
        routes.prune_offline(NOW)
        assert len(routes.table.agents_of("a")) == 2
        ear = ChangeListener(routes)
        routes.prune_offline(NOW + 1)
        assert set(routes.table.agents_of("a")) == {"v"}
        change = ear.heard.get_nowait()
        assert change.after is None


async def test_concurrent_refreshes_share_a_query(database: Database) -> None:
    """Each caller still sees its own commit."""
    async with routing_table(database) as routes:
        names = [f"w{number}@a" for number in range(40)]
        found = await asyncio.gather(*(routes.update([registered(name)]) for name in names))
        assert all(isinstance(verdict, Updated) for [verdict] in found)
        assert all(routes.agent(address(name)) is not None for name in names)
        assert routes._refreshes_done <= routes._refreshes_requested
