"""Who is in which office, with members of other nodes that a room would bring."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.connectors.offices.federated.shared_room import NOBODY, Present, SharedRoom
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Join, Leave, Member
from bridge.connectors.offices.server.memberships import PLACE_TAKEN, Connection, Memberships, Unreachable
from tests.bridge.connectors.offices.clients import GRANTS, Written

CHIEF = Present("@chief:b.test", AGENT, "chief", None, "key")
FEET = Present("@feet:b.test", COMPUTER, "feet", None, "key")


@dataclass
class Room:
    """What a room would say."""

    now: SharedRoom = NOBODY
    problem: str = ""
    settled_for: list[str] = field(default_factory=list)

    async def enter(self, office_id: str) -> None:
        if self.problem:
            raise Unreachable(self.problem)

    def room(self, office_id: str) -> SharedRoom:
        return self.now

    def user(self, member: Member) -> str:
        return f"@{member.name}:a.test"

    async def settled(self, office_id: str) -> None:
        self.settled_for.append(office_id)

    def is_of(self, *members: Present) -> None:
        self.now = SharedRoom({one.user: one for one in members})


@dataclass
class Place:
    room: Room = field(default_factory=Room)
    written: Written = field(default_factory=Written)
    told: list[tuple[str, Any, str]] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    until: Callable[[], Awaitable[object]] | None = None
    beside: "Processes | None" = None

    def __post_init__(self) -> None:
        async def tell(event: str, said: Any, sid: str) -> None:
            self.told.append((event, said, sid))
            if self.until is not None:
                await self.until()

        async def gone(sid: str) -> None:
            self.gone.append(sid)

        self.memberships = Memberships(
            10,
            self.written,
            tell,
            gone=gone,
            report=lambda sentence, error: self.problems.append(sentence),
            shared=self.room,
            beside=self.beside,
        )

    async def join(self, sid: str, role: str, name: str, said: str = "o@a.test") -> tuple[bool, str | None]:
        connection = self.memberships.connections.setdefault(sid, Connection(sid, GRANTS["any"], None))
        return await self.memberships.move(connection, Join(role, name, "o"), said)


async def test_members_of_other_nodes_are_there_before_anybody_joins() -> None:
    """Whoever comes in does not take what is taken."""
    place = Place()
    place.room.is_of(CHIEF, FEET)
    assert await place.join("1", AGENT, "boss") == (False, "Room already has an agent")
    assert await place.join("1", COMPUTER, "feet") == (False, "Name 'feet' is taken in the office")
    assert await place.join("1", COMPUTER, "hands") == (True, None)
    assert place.room.settled_for == ["o"]
    assert place.memberships.is_elsewhere(FEET.user)
    assert not place.memberships.is_elsewhere("1")


async def test_each_is_told_of_its_office_as_it_calls_it() -> None:
    """Of who comes, who goes, and what is another one now."""
    place = Place()
    await place.join("1", COMPUTER, "hands", "o")
    await place.join("2", COMPUTER, "arms", "o@a.test")
    place.told.clear()
    place.room.is_of(FEET)
    await place.memberships.follow("o")
    assert place.told == [
        ("notify:enter_office", {"office_id": "o", "computer": "feet"}, "1"),
        ("notify:enter_office", {"office_id": "o@a.test", "computer": "feet"}, "2"),
    ]
    place.told.clear()
    place.room.is_of()
    await place.memberships.follow("o")
    assert [event for event, *_ in place.told] == ["notify:leave_office"] * 2
    assert place.gone == [FEET.user]


async def test_an_agent_loses_its_seat() -> None:
    """It is taken out, told so, and told why; the others are told too, and it is written down."""
    place = Place()
    await place.join("1", AGENT, "boss")
    await place.join("2", COMPUTER, "hands")
    place.told.clear()
    place.room.is_of(CHIEF)
    await place.memberships.follow("o")
    left, came = {"office_id": "o@a.test", "agent": "boss"}, {"office_id": "o@a.test", "agent": "chief"}
    assert place.told == [
        ("notify:leave_office", left, "2"),
        ("notify:leave_office", left, "1"),
        ("notify:enter_office", came, "2"),
    ]
    assert (
        place.memberships.connections["1"].had_to_leave == f"the seat of the Agent has gone to {CHIEF.user}"
    )
    assert place.written.happened[-1] == ("left", "boss")
    # It may come back once the seat is free.
    place.room.is_of()
    await place.memberships.follow("o")
    assert await place.join("1", AGENT, "boss") == (True, None)
    assert place.memberships.connections["1"].had_to_leave == ""


async def test_what_cannot_be_written_down_holds_nobody() -> None:
    """Who has lost its seat goes; it is said that it is not in the records."""
    place = Place()
    await place.join("1", AGENT, "boss")
    place.written.fails = OSError("full")
    place.room.is_of(CHIEF)
    await place.memberships.follow("o")
    assert place.memberships.offices.agent("o") == Member(CHIEF.user, AGENT, "chief", "o")
    assert place.problems == ["That boss had to leave could not be written down."]


async def test_an_office_that_cannot_be_reached() -> None:
    """Is not joined, and nothing is left behind."""
    place = Place()
    place.room.problem = "b.test does not answer"
    assert await place.join("1", AGENT, "boss") == (False, "b.test does not answer")
    assert place.written.happened == []
    place.room.problem = ""
    assert await place.join("1", AGENT, "boss") == (True, None)


async def test_what_happens_at_once_goes_one_after_the_other() -> None:
    """However many come and go while the room changes, members are told of each once."""
    place = Place()
    place.room.is_of(FEET)
    await asyncio.gather(
        *(place.join(str(number), COMPUTER, f"c{number}") for number in range(5)),
        *(place.memberships.follow("o") for _ in range(5)),
    )
    names = [one.name for one in place.memberships.offices.members("o")]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "c4", "feet"]
    leaving = [
        place.memberships.move(place.memberships.connections[str(number)], Leave("o"), "o")
        for number in range(5)
    ]
    assert await asyncio.gather(*leaving) == [(True, None)] * 5
    assert [one.name for one in place.memberships.offices.members("o")] == ["feet"]


@dataclass
class Processes:
    """What another process would have written down, as it was looked at for each office. `is_ours` says what
    of ours stands there."""

    now: SharedRoom = NOBODY
    elsewhere: dict[str, SharedRoom] = field(default_factory=dict)
    is_ours: bool = True
    is_taken: bool = False
    problem: str = ""
    turns: list[set[str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    owed: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def turn(self, office_ids: Collection[str]) -> AsyncIterator[None]:
        if self.problem:
            raise OSError(self.problem)
        self.turns.append(set(office_ids))
        yield

    def wrote(self, office_id: str) -> None:
        self.said.append(office_id)

    async def look(self, office_id: str) -> None:
        pass

    def room(self, office_id: str) -> SharedRoom:
        return self.elsewhere.get(office_id, NOBODY) if office_id != "o" else self.now

    def has(self, member: Member) -> bool:
        return self.is_ours

    def unseated(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        return [] if self.is_ours else list(members)

    def is_free(self, member: Member) -> bool:
        return not self.is_taken

    def owe(self, member: Member) -> None:
        self.owed.append(member.name)


PARTNER = Present("far", AGENT, "partner", None, "")


@dataclass
class Beside(Place):
    processes: Processes = field(default_factory=Processes)

    def __post_init__(self) -> None:
        self.beside = self.processes
        super().__post_init__()


async def test_members_of_another_process_are_of_this_node() -> None:
    """They have what they have, and are asked as ours are; whoever comes and goes has the office to itself
    meanwhile, and others are told of it."""
    place = Beside()
    place.processes.now = SharedRoom({PARTNER.user: PARTNER})
    assert await place.join("1", AGENT, "boss") == (False, "Room already has an agent")
    assert place.processes.said == []
    assert await place.join("1", COMPUTER, "hands") == (True, None)
    assert not place.memberships.is_elsewhere("far")
    place.processes.now = NOBODY
    await place.memberships.follow("o")
    assert place.told == [("notify:leave_office", {"office_id": "o@a.test", "agent": "partner"}, "1")]
    assert place.gone == ["far"]
    connection = place.memberships.connections["1"]
    assert await place.memberships.move(connection, Leave("o"), "o") == (True, None)
    assert place.processes.turns == [{"o"}] * 3
    assert place.processes.said == ["o", "o"]


async def test_who_is_gone_and_cannot_be_written_down() -> None:
    """Is gone all the same, and it is made up for."""
    place = Beside()
    await place.join("1", AGENT, "boss")
    place.processes.problem = "full"
    await place.memberships.end("1")
    assert place.memberships.offices.agent("o") is None
    assert place.processes.owed == ["boss"]
    assert len(place.problems) == 1


async def test_a_place_that_is_somebody_elses_by_now_is_not_given_up() -> None:
    """What is written down of that name is not of who leaves."""
    place = Beside()
    await place.join("1", AGENT, "boss")
    place.processes.is_ours = False
    await place.memberships.end("1")
    assert place.written.happened == [("joined", "boss")]


async def test_a_process_that_was_thought_to_have_ended() -> None:
    """Its members have their places again, or leave."""
    place = Beside()
    await place.join("1", AGENT, "boss")
    place.processes.is_ours = False
    await place.memberships.follow("o")
    assert place.written.happened == [("joined", "boss")] * 2
    assert place.memberships.offices.agent("o") is not None
    place.processes.is_taken = True
    await place.memberships.follow("o")
    assert place.memberships.offices.agent("o") is None
    assert place.told == [("notify:leave_office", {"office_id": "o@a.test", "agent": "boss"}, "1")]
    assert place.memberships.connections["1"].had_to_leave == PLACE_TAKEN
    assert place.written.happened == [("joined", "boss")] * 2


async def test_a_companion_goes_to_another_office() -> None:
    """That it has come there may be known before that it has left. It is where it was last, and nowhere else,
    in whatever order the offices are looked at."""
    place = Beside()
    memberships, processes = place.memberships, place.processes
    processes.now = SharedRoom({PARTNER.user: PARTNER})
    await memberships.follow("o")
    processes.elsewhere["p"] = SharedRoom({PARTNER.user: replace(PARTNER, since=2)})
    await memberships.follow("p")
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]
    await memberships.follow("o")  # of which no more is known than before
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]
    processes.now = NOBODY
    await memberships.follow("o")
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]


async def test_a_companion_goes_while_others_are_told_that_it_has_left() -> None:
    """Nobody is taken out twice."""
    place = Beside()
    memberships, processes = place.memberships, place.processes
    processes.now = SharedRoom({PARTNER.user: PARTNER})
    await place.join("1", COMPUTER, "hands")
    goes = asyncio.Event()
    place.until = goes.wait
    processes.now = NOBODY
    processes.elsewhere["p"] = SharedRoom({PARTNER.user: replace(PARTNER, since=2)})
    leaving = asyncio.create_task(memberships.follow("o"))
    await asyncio.sleep(0)
    await memberships.follow("p")
    goes.set()
    await leaving
    assert memberships.offices.member("far") == Member("far", AGENT, "partner", "p")
    assert memberships.companions("p") == {"far"}
    assert [event for event, *_ in place.told] == ["notify:leave_office"]
