"""Keeps the routing table told of who is in the offices of this process: each member is an agent of this
node.

It is told a moment after somebody has come or gone, of all that came until then at once. What another process
of the node says of its members is left alone. Who was there when a process ended is given time to come back:
what waits for them waits so long, too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.agent_news import Registered, Stale, Taken, Unregistered, Verdict
from bridge.connectors.offices.member_agents import CONNECTOR, Seat, idle_again, what_to_tell
from bridge.connectors.offices.office import Member
from bridge.connectors.offices.office_room import member_address
from bridge.connectors.offices.service.record_rows import read_body
from bridge.service.routing_table import Change, RoutingTable
from bridge.service.session import Report
from storage import office_records
from storage.connecting import ConnectionLost
from storage.database import Database

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
        self._works: list[asyncio.Task[None]] = []
        self._end: Callable[[], None] = lambda: None

    async def start(self) -> None:
        with suppress(ConnectionLost):
            await self._routes.take(idle_again(await self._left_behind(), self._now_ms()))
        self._end = self._routes.subscribe(self._changed)
        self._works = [asyncio.create_task(self._tell_for_ever()), asyncio.create_task(self._give_up())]
        self.moved()

    async def close(self) -> None:
        """Everybody has left, and the table is told so if it can be."""
        self._end()
        for work in self._works:
            work.cancel()
        await asyncio.gather(*self._works, return_exceptions=True)
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
            if agent is not None and not agent.is_here and agent.address in self._seats:
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
            verdicts = await self._routes.take(told.news) if told.news else []
            self._told = set(there)
            for news, verdict in zip(told.news, verdicts, strict=True):
                self._look_at(news, verdict)
            new = [address for address, member in there.items() if self._met.get(address) != member]
            self._met = there
        await self._came(new)

    def _look_at(self, news: Registered | Unregistered, verdict: Verdict) -> None:
        if isinstance(verdict, Stale):
            # Somebody else has said something newer in this very moment.
            if isinstance(news, Unregistered):
                self._told.add(news.address)
            asyncio.get_running_loop().call_later(AGAIN, self._woken.set)
        elif not isinstance(verdict, Taken):
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
            there = await office_records.fetch_there(connection)
        node_id = self._routes.node_id
        members = {member_address(one.office_id, read_body(one.body)["name"], node_id) for one in there}
        return [
            agent
            for agent in self._routes.table.agents_of(node_id).values()
            if agent.is_here and agent.connector == CONNECTOR and agent.address not in members
        ]
