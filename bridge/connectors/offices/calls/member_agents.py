"""Registers the members of offices that are connected to this process as agents of this node.

The routing table is updated shortly after members join or leave, with all changes until then at once. Entries
of members connected to other processes are left alone. Members of a process that ended have some time to
reconnect; tasks for them wait for as long.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import MAX_CAPABILITIES, MAX_CAPABILITY_LENGTH, Agent, AgentStatus, Capabilities
from bridge.agents.routing_table import Change, RoutingTable
from bridge.agents.updates import (
    Registration,
    StaleUpdate,
    StatusUpdate,
    Unregistration,
    Update,
    Updated,
    UpdateOutcome,
)
from bridge.connectors.offices.protocol.office import AGENT, Member
from bridge.connectors.offices.rooms.office_room import member_address, member_of
from bridge.connectors.offices.rooms.record_rows import read_body
from bridge.connectors.offices.settings import NAME
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.offices import records as office_records

RUNTIME: Final = "a2c-smcp"
READS_TASKS: Final = "task_execution"
"""The capability of an Agent that accepts tasks. Other kinds of agents accept tasks without declaring it."""
LEFT: Final = "it has left its office"


@dataclass(frozen=True, slots=True)
class LocalMember:
    """A member that is connected to this process. `tools` are those of a Computer, as far as they are
    known."""

    member: Member
    reads_tasks: bool = False
    tools: tuple[str, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        if self.member.role == AGENT:
            return (READS_TASKS,) if self.reads_tasks else ()
        return _tool_names(self.tools)


@dataclass(frozen=True, slots=True)
class RoutingChanges:
    """`taken` are addresses that agents of another kind on this node have. Those agents keep them."""

    updates: tuple[Registration | Unregistration, ...]
    taken: tuple[AgentAddress, ...] = ()


def routing_changes(
    members: Mapping[AgentAddress, LocalMember],
    gone: Iterable[AgentAddress],
    known: Mapping[AgentAddress, Agent | None],
    now_ms: int,
) -> RoutingChanges:
    """The updates that register the present members and unregister those in `gone`. `known` is the routing
    table's entry for each of these addresses."""
    updates: list[Registration | Unregistration] = []
    taken: list[AgentAddress] = []
    for address in gone:
        agent = known.get(address)
        if address not in members and agent is not None and _is_ours(agent) and agent.is_online:
            updates.append(Unregistration(address, LEFT, max(now_ms, agent.sent_at)))
    for address, member in members.items():
        agent = known.get(address)
        if agent is not None and agent.is_online and not _is_ours(agent):
            taken.append(address)
        elif (
            agent is None
            or not agent.is_online
            or (agent.runtime, agent.capabilities) != (RUNTIME, member.capabilities)
        ):
            # If the clock was set back, the entry must still be newer than the existing one.
            sent_at = now_ms if agent is None else max(now_ms, agent.sent_at + 1)
            updates.append(Registration(address, NAME, RUNTIME, member.capabilities, sent_at))
    return RoutingChanges(tuple(updates), tuple(taken))


def reset_to_idle(agents: Iterable[Agent], now_ms: int) -> list[Update]:
    """Status updates for members that were working in a process that has ended."""
    return [
        StatusUpdate(agent.address, AgentStatus.IDLE, None, max(now_ms, agent.sent_at + 1))
        for agent in agents
        if agent.is_online and _is_ours(agent) and agent.status is not AgentStatus.IDLE
    ]


def unregister_all(agents: Iterable[Agent], now_ms: int) -> list[Update]:
    """For a node that no longer serves offices: unregisters members that an earlier process has left."""
    return [
        Unregistration(agent.address, LEFT, max(now_ms, agent.sent_at))
        for agent in agents
        if agent.is_online and _is_ours(agent)
    ]


def why_reserved(address: AgentAddress) -> str | None:
    """Why no other agent can use the address; None if it is no member's address."""
    found = member_of(address)
    if found is None:
        return None
    return f"{address.agent_id} is the address of {found[1]} in the office {found[0]}: choose an id without a slash."


def _is_ours(agent: Agent) -> bool:
    return agent.connector == NAME


def _tool_names(tools: Iterable[str]) -> Capabilities:
    """Unique names, and no more than an agent may have capabilities."""
    names: dict[str, str] = {}
    for tool in tools:
        if (
            len(names) < MAX_CAPABILITIES
            and 0 < len(tool) <= MAX_CAPABILITY_LENGTH
            and tool.isprintable()
            and tool == tool.strip()
        ):
            names.setdefault(tool.casefold(), tool)
    return tuple(names.values())


GRACE: Final = 60.0
"""Seconds in which members of a process that has ended can reconnect before they are unregistered."""
RETRY_DELAY: Final = 1.0
CLOSE_TIMEOUT: Final = 2.0
MAX_REPORTED: Final = 1_000


class MemberAgents:
    """Keeps the routing table in line with the members of this process. `local_members` returns the members
    connected to this process. `before_unregister` is awaited for each agent that has left; it returns when
    the agent's running tasks have been ended. `on_available` receives the addresses that can be given tasks
    from now on. It runs between `start` and `close`; call `members_changed` after each change."""

    def __init__(
        self,
        routes: RoutingTable,
        database: Database,
        local_members: Callable[[], Iterable[LocalMember]],
        *,
        before_unregister: Callable[[AgentAddress], Awaitable[None]],
        on_available: Callable[[Sequence[AgentAddress]], Awaitable[None]],
        now_ms: Callable[[], int],
        report: Report,
        grace: float = GRACE,
    ) -> None:
        self._routes = routes
        self._database = database
        self._list_members = local_members
        self._before_unregister = before_unregister
        self._on_available = on_available
        self._now_ms = now_ms
        self._report = report
        self._grace = grace
        self._addresses: dict[tuple[str, str], AgentAddress] = {}
        self._members: dict[AgentAddress, LocalMember] = {}
        # The addresses that this process has registered, and the member that each had at that time.
        self._registered: set[AgentAddress] = set()
        self._available: dict[AgentAddress, Member] = {}
        self._updating = asyncio.Lock()
        self._reported: set[AgentAddress] = set()
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def start(self) -> None:
        with suppress(ConnectionLost):
            await self._routes.update(reset_to_idle(await self._orphaned(), self._now_ms()))
        self._unsubscribe = self._routes.subscribe(self._table_changed)
        self._background.supervise("members as agents", self._run)
        self._background.spawn("members that did not reconnect", self._unregister_orphaned())
        self.members_changed()

    async def close(self) -> None:
        """Unregister the members, which have all left. This is given up if the database is unavailable."""
        self._unsubscribe()
        await self._background.close()
        self.members_changed()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._update([agent.address for agent in await self._orphaned()])
        except (ConnectionLost, TimeoutError) as error:
            self._report("Failed to unregister Agents and Computers that have left.", error)

    def member_at(self, address: AgentAddress) -> LocalMember | None:
        """The member that has this address now."""
        return self._members.get(address)

    def address(self, member: Member) -> AgentAddress:
        key = member.office_id, member.name
        known = self._addresses.get(key)
        return known or member_address(member.office_id, member.name, self._routes.node_id)

    def members_changed(self) -> None:
        members = {self.address(one.member): one for one in self._list_members()}
        self._addresses = {(one.member.office_id, one.member.name): address for address, one in members.items()}
        self._members = members
        self._woken.set()

    # -- internals --

    def _table_changed(self, changes: Iterable[Change]) -> None:
        """Another process may have unregistered a member that has connected to this process since."""
        for change in changes:
            agent = change.after
            if agent is not None and not agent.is_online and agent.address in self._members:
                self._woken.set()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._update()
            except ConnectionLost as lost:
                self._report("Registering Agents and Computers is delayed: the database is unavailable.", lost)
                await self._retry()
            except Exception as error:
                self._report("Failed to register Agents and Computers.", error)
                await self._retry()

    async def _retry(self) -> None:
        await asyncio.sleep(RETRY_DELAY)
        self._woken.set()

    async def _update(self, also_gone: Iterable[AgentAddress] = ()) -> None:
        async with self._updating:
            gone = {*self._registered, *also_gone} - self._members.keys()
            for address in gone:
                await self._before_unregister(address)
            members = dict(self._members)
            gone -= members.keys()
            known = {address: self._routes.agent(address) for address in {*members, *gone}}
            changes = routing_changes(members, gone, known, self._now_ms())
            for address in changes.taken:
                self._report_once(address, f"{address} is the address of another agent, which keeps it.")
            here = {address: one.member for address, one in members.items() if address not in changes.taken}
            # Before the update: a member that is registered but not known here would never be unregistered.
            self._registered |= set(here)
            outcomes = await self._routes.update(changes.updates) if changes.updates else []
            self._registered = set(here)
            for update, outcome in zip(changes.updates, outcomes, strict=True):
                self._check(update, outcome)
            new = [address for address, member in here.items() if self._available.get(address) != member]
            self._available = here
        await self._on_available(new)

    def _check(self, update: Registration | Unregistration, outcome: UpdateOutcome) -> None:
        if isinstance(outcome, StaleUpdate):
            # Another process has updated the entry at the same time.
            if isinstance(update, Unregistration):
                self._registered.add(update.address)
            asyncio.get_running_loop().call_later(RETRY_DELAY, self._woken.set)
        elif not isinstance(outcome, Updated):
            self._report_once(update.address, f"The routing table refuses {update.address}: {outcome}.")

    def _report_once(self, address: AgentAddress, sentence: str) -> None:
        if address not in self._reported and len(self._reported) < MAX_REPORTED:
            self._reported.add(address)
            self._report(sentence, None)

    # -- members of processes that have ended --

    async def _unregister_orphaned(self) -> None:
        """Unregister members that have not reconnected within two rounds. It goes on, because another process
        may end at any time."""
        missed: set[AgentAddress] = set()
        while True:
            try:
                orphaned = {agent.address for agent in await self._orphaned()}
                if missed & orphaned:
                    await self._update(missed & orphaned)
                missed = orphaned
            except ConnectionLost:
                pass  # the next round finds them
            except Exception as error:
                self._report("Failed to unregister Agents and Computers that did not reconnect.", error)
            await asyncio.sleep(self._grace)

    async def _orphaned(self) -> list[Agent]:
        """Members that the routing table still lists although the records say that they have left: they are
        connected to no process."""
        async with self._database.transaction(readonly=True) as connection:
            there = await office_records.fetch_present_members(connection)
        node_id = self._routes.node_id
        members = {member_address(one.office_id, read_body(one.body)["name"], node_id) for one in there}
        return [
            agent
            for agent in self._routes.table.agents_of(node_id).values()
            if agent.is_online and agent.connector == NAME and agent.address not in members
        ]
