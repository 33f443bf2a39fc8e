"""Memberships, with members of other nodes and of other processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from bridge.connectors.offices.federated.shared_room import NO_MEMBERS, OfficeMembers, RemoteMember
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Join, Leave, Member
from bridge.connectors.offices.server.memberships import DISPLACED, Connection, Memberships, OfficeUnreachable
from tests.bridge.connectors.offices.clients import GRANTS, FakeRecords

CHIEF = RemoteMember("@chief:b.test", AGENT, "chief", None, "key")
FEET = RemoteMember("@feet:b.test", COMPUTER, "feet", None, "key")


@dataclass
class FakeSharedOffices:
    """Takes the place of `SharedOffices`: `members` are those of other nodes."""

    members: OfficeMembers = NO_MEMBERS
    problem: str = ""
    published: list[str] = field(default_factory=list)

    async def enter(self, office_id: str) -> None:
        if self.problem:
            raise OfficeUnreachable(self.problem)

    def remote_members(self, office_id: str) -> OfficeMembers:
        return self.members

    def user_id(self, member: Member) -> str:
        return f"@{member.name}:a.test"

    async def wait_until_published(self, office_id: str) -> None:
        self.published.append(office_id)

    def set_members(self, *members: RemoteMember) -> None:
        self.members = OfficeMembers({one.user: one for one in members})


@dataclass
class Setup:
    shared: FakeSharedOffices = field(default_factory=FakeSharedOffices)
    records: FakeRecords = field(default_factory=FakeRecords)
    sent: list[tuple[str, Any, str]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    before_sent: Callable[[], Awaitable[object]] | None = None
    cluster: "FakeCluster | None" = None

    def __post_init__(self) -> None:
        async def emit(event: str, payload: Any, sid: str) -> None:
            self.sent.append((event, payload, sid))
            if self.before_sent is not None:
                await self.before_sent()

        async def on_left(sid: str) -> None:
            self.left.append(sid)

        self.memberships = Memberships(
            10,
            self.records,
            emit,
            on_left=on_left,
            report=lambda sentence, error: self.problems.append(sentence),
            shared=self.shared,
            cluster=self.cluster,
        )

    async def join(self, sid: str, role: str, name: str, office_id: str = "o@a.test") -> tuple[bool, str | None]:
        connection = self.memberships.connections.setdefault(sid, Connection(sid, GRANTS["any"], None))
        return await self.memberships.change(connection, Join(role, name, "o"), office_id)


async def test_members_of_other_nodes_occupy_names_and_the_seat() -> None:
    """Even if no local member has joined the office before."""
    setup = Setup()
    setup.shared.set_members(CHIEF, FEET)
    assert await setup.join("1", AGENT, "boss") == (False, "Room already has an agent")
    assert await setup.join("1", COMPUTER, "feet") == (False, "Name 'feet' is taken in the office")
    assert await setup.join("1", COMPUTER, "hands") == (True, None)
    assert setup.shared.published == ["o"]
    assert setup.memberships.is_remote(FEET.user)
    assert not setup.memberships.is_remote("1")


async def test_each_client_receives_the_office_id_that_it_uses() -> None:
    """In notifications of joins and leaves."""
    setup = Setup()
    await setup.join("1", COMPUTER, "hands", "o")
    await setup.join("2", COMPUTER, "arms", "o@a.test")
    setup.sent.clear()
    setup.shared.set_members(FEET)
    await setup.memberships.refresh("o")
    assert setup.sent == [
        ("notify:enter_office", {"office_id": "o", "computer": "feet"}, "1"),
        ("notify:enter_office", {"office_id": "o@a.test", "computer": "feet"}, "2"),
    ]
    setup.sent.clear()
    setup.shared.set_members()
    await setup.memberships.refresh("o")
    assert [event for event, *_ in setup.sent] == ["notify:leave_office"] * 2
    assert setup.left == [FEET.user]


async def test_an_agent_that_loses_its_seat_is_evicted() -> None:
    """All members are notified, the leave is recorded, and the Agent can learn the reason."""
    setup = Setup()
    await setup.join("1", AGENT, "boss")
    await setup.join("2", COMPUTER, "hands")
    setup.sent.clear()
    setup.shared.set_members(CHIEF)
    await setup.memberships.refresh("o")
    left, entered = ({"office_id": "o@a.test", "agent": "boss"}, {"office_id": "o@a.test", "agent": "chief"})
    assert setup.sent == [
        ("notify:leave_office", left, "2"),
        ("notify:leave_office", left, "1"),
        ("notify:enter_office", entered, "2"),
    ]
    assert CHIEF.user in setup.memberships.connections["1"].eviction_reason
    assert setup.records.entries[-1] == ("left", "boss")
    # It can join again when the seat is free.
    setup.shared.set_members()
    await setup.memberships.refresh("o")
    assert await setup.join("1", AGENT, "boss") == (True, None)
    assert setup.memberships.connections["1"].eviction_reason == ""


async def test_an_eviction_takes_effect_even_if_it_cannot_be_recorded() -> None:
    """The failure is reported."""
    setup = Setup()
    await setup.join("1", AGENT, "boss")
    setup.records.error = OSError("full")
    setup.shared.set_members(CHIEF)
    await setup.memberships.refresh("o")
    assert setup.memberships.offices.agent("o") == Member(CHIEF.user, AGENT, "chief", "o")
    assert ["boss" in problem for problem in setup.problems] == [True]


async def test_an_unreachable_office_cannot_be_joined() -> None:
    """The refusal leaves nothing behind."""
    setup = Setup()
    setup.shared.problem = "b.test does not answer"
    assert await setup.join("1", AGENT, "boss") == (False, "b.test does not answer")
    assert setup.records.entries == []
    setup.shared.problem = ""
    assert await setup.join("1", AGENT, "boss") == (True, None)


async def test_concurrent_changes_are_serialised() -> None:
    """Each join and leave takes effect once, while the members of other nodes change."""
    setup = Setup()
    setup.shared.set_members(FEET)
    await asyncio.gather(
        *(setup.join(str(number), COMPUTER, f"c{number}") for number in range(5)),
        *(setup.memberships.refresh("o") for _ in range(5)),
    )
    names = [one.name for one in setup.memberships.offices.members("o")]
    assert sorted(names) == ["c0", "c1", "c2", "c3", "c4", "feet"]
    leaving = [
        setup.memberships.change(setup.memberships.connections[str(number)], Leave("o"), "o") for number in range(5)
    ]
    assert await asyncio.gather(*leaving) == [(True, None)] * 5
    assert [one.name for one in setup.memberships.offices.members("o")] == ["feet"]


@dataclass
class FakeCluster:
    """Takes the place of `ClusterMembers`: `members` are those of another process in the office "o",
    `elsewhere` those in other offices. `are_recorded`: the records contain the members of this process."""

    members: OfficeMembers = NO_MEMBERS
    elsewhere: dict[str, OfficeMembers] = field(default_factory=dict)
    are_recorded: bool = True
    is_taken: bool = False
    problem: str = ""
    locked: list[set[str]] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    pending_leaves: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def lock(self, office_ids: Collection[str]) -> AsyncIterator[None]:
        if self.problem:
            raise OSError(self.problem)
        self.locked.append(set(office_ids))
        yield

    def mark_changed(self, office_id: str) -> None:
        self.changed.append(office_id)

    async def reload(self, office_id: str) -> None:
        pass

    def remote_members(self, office_id: str) -> OfficeMembers:
        return self.elsewhere.get(office_id, NO_MEMBERS) if office_id != "o" else self.members

    def is_recorded(self, member: Member) -> bool:
        return self.are_recorded

    def displaced(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        return [] if self.are_recorded else list(members)

    def can_restore(self, member: Member) -> bool:
        return not self.is_taken

    def record_leave_later(self, member: Member) -> None:
        self.pending_leaves.append(member.name)


PARTNER = RemoteMember("far", AGENT, "partner", None, "")


@dataclass
class ClusterSetup(Setup):
    processes: FakeCluster = field(default_factory=FakeCluster)

    def __post_init__(self) -> None:
        self.cluster = self.processes
        super().__post_init__()


async def test_members_of_other_processes_count_as_local() -> None:
    """They occupy names and the seat. A change of membership locks the office and is published to the other
    processes."""
    setup = ClusterSetup()
    setup.processes.members = OfficeMembers({PARTNER.user: PARTNER})
    assert await setup.join("1", AGENT, "boss") == (False, "Room already has an agent")
    assert setup.processes.changed == []
    assert await setup.join("1", COMPUTER, "hands") == (True, None)
    assert not setup.memberships.is_remote("far")
    setup.processes.members = NO_MEMBERS
    await setup.memberships.refresh("o")
    assert setup.sent == [("notify:leave_office", {"office_id": "o@a.test", "agent": "partner"}, "1")]
    assert setup.left == ["far"]
    connection = setup.memberships.connections["1"]
    assert await setup.memberships.change(connection, Leave("o"), "o") == (True, None)
    assert setup.processes.locked == [{"o"}] * 3
    assert setup.processes.changed == ["o", "o"]


async def test_a_leave_that_cannot_be_recorded_is_recorded_later() -> None:
    """The member is removed from the office at once."""
    setup = ClusterSetup()
    await setup.join("1", AGENT, "boss")
    setup.processes.problem = "full"
    await setup.memberships.disconnect("1")
    assert setup.memberships.offices.agent("o") is None
    assert setup.processes.pending_leaves == ["boss"]
    assert len(setup.problems) == 1


async def test_a_displaced_member_that_disconnects_is_not_recorded_as_left() -> None:
    """The records of its name belong to another member by now."""
    setup = ClusterSetup()
    await setup.join("1", AGENT, "boss")
    setup.processes.are_recorded = False
    await setup.memberships.disconnect("1")
    assert setup.records.entries == [("joined", "boss")]


async def test_displaced_members_are_restored_or_evicted() -> None:
    """Another process has treated this one as ended. A member is restored if its name and seat are free."""
    setup = ClusterSetup()
    await setup.join("1", AGENT, "boss")
    setup.processes.are_recorded = False
    await setup.memberships.refresh("o")
    assert setup.records.entries == [("joined", "boss")] * 2
    assert setup.memberships.offices.agent("o") is not None
    setup.processes.is_taken = True
    await setup.memberships.refresh("o")
    assert setup.memberships.offices.agent("o") is None
    assert setup.sent == [("notify:leave_office", {"office_id": "o@a.test", "agent": "boss"}, "1")]
    assert setup.memberships.connections["1"].eviction_reason == DISPLACED
    assert setup.records.entries == [("joined", "boss")] * 2


async def test_a_member_of_another_process_changes_its_office() -> None:
    """Its new office may be reloaded before the old one. It is in the office of the later record and in no
    other, in whatever order the offices are reloaded."""
    setup = ClusterSetup()
    memberships, processes = setup.memberships, setup.processes
    processes.members = OfficeMembers({PARTNER.user: PARTNER})
    await memberships.refresh("o")
    processes.elsewhere["p"] = OfficeMembers({PARTNER.user: replace(PARTNER, since=2)})
    await memberships.refresh("p")
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]
    await memberships.refresh("o")  # an outdated view
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]
    processes.members = NO_MEMBERS
    await memberships.refresh("o")
    assert list(memberships.offices.all()) == [Member("far", AGENT, "partner", "p")]


async def test_a_member_of_another_process_is_removed_once() -> None:
    """It changes its office while the members of the old one are being notified."""
    setup = ClusterSetup()
    memberships, processes = setup.memberships, setup.processes
    processes.members = OfficeMembers({PARTNER.user: PARTNER})
    await setup.join("1", COMPUTER, "hands")
    proceed = asyncio.Event()
    setup.before_sent = proceed.wait
    processes.members = NO_MEMBERS
    processes.elsewhere["p"] = OfficeMembers({PARTNER.user: replace(PARTNER, since=2)})
    leaving = asyncio.create_task(memberships.refresh("o"))
    await asyncio.sleep(0)
    await memberships.refresh("p")
    proceed.set()
    await leaving
    assert memberships.offices.member("far") == Member("far", AGENT, "partner", "p")
    assert memberships.cluster_members("p") == {"far"}
    assert [event for event, *_ in setup.sent] == ["notify:leave_office"]
