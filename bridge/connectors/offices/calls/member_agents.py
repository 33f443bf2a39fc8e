"""The members of offices as agents of this node: what the routing table is to say of them, and which ids are
theirs alone.

Keeps the routing table told of who is in the offices of this process: each member is an agent of this
node.

It is told a moment after somebody has come or gone, of all that came until then at once. What another process
of the node says of its members is left alone. Who was there when a process ended is given time to come back:
what waits for them waits so long, too.
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
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Database
from storage.offices import records as office_records

CONNECTOR: Final = "offices"
RUNTIME: Final = "a2c-smcp"
READS_TASKS: Final = "task_execution"
"""What an Agent can that reads tasks: as agents are that need not say so."""
LEFT: Final = "it has left its office"


@dataclass(frozen=True, slots=True)
class Seat:
    """A member that is connected to this process. `tools` are those of a Computer, as far as they are
    known."""

    member: Member
    reads_tasks: bool = False
    tools: tuple[str, ...] = ()

    @property
    def capabilities(self) -> Capabilities:
        if self.member.role == AGENT:
            return (READS_TASKS,) if self.reads_tasks else ()
        return _names(self.tools)


@dataclass(frozen=True, slots=True)
class Told:
    """`taken` are addresses that other agents of this node have: those stay what they are."""

    news: tuple[Registration | Unregistration, ...]
    taken: tuple[AgentAddress, ...] = ()


def what_to_tell(
    seats: Mapping[AgentAddress, Seat],
    gone: Iterable[AgentAddress],
    known: Mapping[AgentAddress, Agent | None],
    now_ms: int,
) -> Told:
    """So that the routing table has who is there, and has no more who was there and has `gone`. `known` is
    what it says of each of them."""
    news: list[Registration | Unregistration] = []
    taken: list[AgentAddress] = []
    for address in gone:
        agent = known.get(address)
        if address not in seats and agent is not None and _is_ours(agent) and agent.is_online:
            news.append(Unregistration(address, LEFT, max(now_ms, agent.sent_at)))
    for address, seat in seats.items():
        agent = known.get(address)
        if agent is not None and agent.is_online and not _is_ours(agent):
            taken.append(address)
        elif (
            agent is None
            or not agent.is_online
            or (agent.runtime, agent.capabilities) != (RUNTIME, seat.capabilities)
        ):
            # A clock that was put back must not make it be taken for old news.
            sent_at = now_ms if agent is None else max(now_ms, agent.sent_at + 1)
            news.append(Registration(address, CONNECTOR, RUNTIME, seat.capabilities, sent_at))
    return Told(tuple(news), tuple(taken))


def idle_again(agents: Iterable[Agent], now_ms: int) -> list[Update]:
    """The process in which they were at work has ended."""
    return [
        StatusUpdate(agent.address, AgentStatus.IDLE, None, max(now_ms, agent.sent_at + 1))
        for agent in agents
        if agent.is_online and _is_ours(agent) and agent.status is not AgentStatus.IDLE
    ]


def all_gone(agents: Iterable[Agent], now_ms: int) -> list[Update]:
    """Where no offices are served nobody is in one, whatever a process before this one has left."""
    return [
        Unregistration(agent.address, LEFT, max(now_ms, agent.sent_at))
        for agent in agents
        if agent.is_online and _is_ours(agent)
    ]


def reserved(address: AgentAddress) -> str | None:
    """Why nobody else can be called so: a sentence. None if it is no member's address."""
    found = member_of(address)
    if found is None:
        return None
    return (
        f"{address.agent_id} is the address of {found[1]} in the office {found[0]}: attach under an id"
        " without a slash."
    )


def _is_ours(agent: Agent) -> bool:
    return agent.connector == CONNECTOR


def _names(tools: Iterable[str]) -> Capabilities:
    """As many as an agent may have, each once."""
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
"""Seconds for coming back after the process has ended."""
AGAIN: Final = 1.0
LAST_WORDS: Final = 2.0
MOST_COMPLAINED_OF: Final = 1_000


class Addresses:
    """`seats` are those of this process, with what is known of them. `parting` returns when what an agent has
    begun has been ended, and `came` is told of those that can be given tasks from now on. It runs between
    `start` and `close`; `moved` says that somebody has come or gone."""

    def __init__(
        self,
        routes: RoutingTable,
        database: Database,
        seats: Callable[[], Iterable[Seat]],
        *,
        parting: Callable[[AgentAddress], Awaitable[None]],
        came: Callable[[Sequence[AgentAddress]], Awaitable[None]],
        now_ms: Callable[[], int],
        report: Report,
        grace: float = GRACE,
    ) -> None:
        self._routes = routes
        self._database = database
        self._list_seats = seats
        self._parting = parting
        self._came = came
        self._now_ms = now_ms
        self._report = report
        self._grace = grace
        self._addresses: dict[tuple[str, str], AgentAddress] = {}
        self._seats: dict[AgentAddress, Seat] = {}
        # Of whom was told; and as whom they were met.
        self._told: set[AgentAddress] = set()
        self._met: dict[AgentAddress, Member] = {}
        self._telling = asyncio.Lock()
        self._complained: set[AgentAddress] = set()
        self._woken = asyncio.Event()
        self._background = BackgroundTasks()
        self._end: Callable[[], None] = lambda: None

    async def start(self) -> None:
        with suppress(ConnectionLost):
            await self._routes.update(idle_again(await self._left_behind(), self._now_ms()))
        self._end = self._routes.subscribe(self._changed)
        self._background.supervise("members as agents", self._tell_for_ever)
        self._background.spawn("members that did not come back", self._give_up())
        self.moved()

    async def close(self) -> None:
        """Everybody has left, and the table is told so if it can be."""
        self._end()
        await self._background.close()
        self.moved()
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._tell([agent.address for agent in await self._left_behind()])
        except (ConnectionLost, TimeoutError) as error:
            self._report("That Agents and Computers have left could not be told.", error)

    def seat(self, address: AgentAddress) -> Seat | None:
        """Who is there under this address now."""
        return self._seats.get(address)

    def address(self, member: Member) -> AgentAddress:
        key = member.office_id, member.name
        known = self._addresses.get(key)
        return known or member_address(member.office_id, member.name, self._routes.node_id)

    def moved(self) -> None:
        seats = {self.address(seat.member): seat for seat in self._list_seats()}
        self._addresses = {
            (seat.member.office_id, seat.member.name): address for address, seat in seats.items()
        }
        self._seats = seats
        self._woken.set()

    # -- inside --

    def _changed(self, changes: Iterable[Change]) -> None:
        """Another process may have told of the leaving of somebody who is here by now."""
        for change in changes:
            agent = change.after
            if agent is not None and not agent.is_online and agent.address in self._seats:
                self._woken.set()

    async def _tell_for_ever(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self._tell()
            except ConnectionLost as lost:
                self._report("Of Agents and Computers is told later.", lost)
                await self._again()
            except Exception as error:
                self._report("Of Agents and Computers could not be told.", error)
                await self._again()

    async def _again(self) -> None:
        await asyncio.sleep(AGAIN)
        self._woken.set()

    async def _tell(self, also_gone: Iterable[AgentAddress] = ()) -> None:
        async with self._telling:
            gone = {*self._told, *also_gone} - self._seats.keys()
            for address in gone:
                await self._parting(address)
            seats = dict(self._seats)
            gone -= seats.keys()
            known = {address: self._routes.agent(address) for address in {*seats, *gone}}
            told = what_to_tell(seats, gone, known, self._now_ms())
            for address in told.taken:
                self._complain(address, f"{address} is another agent already, and stays that one.")
            there = {address: seat.member for address, seat in seats.items() if address not in told.taken}
            # Before it is: who is told of and not known here to be would never be told gone.
            self._told |= set(there)
            verdicts = await self._routes.update(told.news) if told.news else []
            self._told = set(there)
            for news, verdict in zip(told.news, verdicts, strict=True):
                self._look_at(news, verdict)
            new = [address for address, member in there.items() if self._met.get(address) != member]
            self._met = there
        await self._came(new)

    def _look_at(self, news: Registration | Unregistration, verdict: UpdateOutcome) -> None:
        if isinstance(verdict, StaleUpdate):
            # Somebody else has said something newer in this very moment.
            if isinstance(news, Unregistration):
                self._told.add(news.address)
            asyncio.get_running_loop().call_later(AGAIN, self._woken.set)
        elif not isinstance(verdict, Updated):
            self._complain(news.address, f"Of {news.address} cannot be told: {verdict}.")

    def _complain(self, address: AgentAddress, sentence: str) -> None:
        """Once."""
        if address not in self._complained and len(self._complained) < MOST_COMPLAINED_OF:
            self._complained.add(address)
            self._report(sentence, None)

    # -- who was there when a process ended --

    async def _give_up(self) -> None:
        """Those who have not come back from one look to the next are gone. Another process may end at any
        time."""
        missed: set[AgentAddress] = set()
        while True:
            try:
                left = {agent.address for agent in await self._left_behind()}
                if missed & left:
                    await self._tell(missed & left)
                missed = left
            except ConnectionLost:
                pass  # the next look finds them
            except Exception as error:
                self._report("Of Agents and Computers that have not come back could not be told.", error)
            await asyncio.sleep(self._grace)

    async def _left_behind(self) -> list[Agent]:
        """Agents of which the table has that they are there, and which are in no process: of those it is
        written down that they have left."""
        async with self._database.transaction(readonly=True) as connection:
            there = await office_records.fetch_present_members(connection)
        node_id = self._routes.node_id
        members = {member_address(one.office_id, read_body(one.body)["name"], node_id) for one in there}
        return [
            agent
            for agent in self._routes.table.agents_of(node_id).values()
            if agent.is_online and agent.connector == CONNECTOR and agent.address not in members
        ]
