"""Who is in which office: the membership of all connections of this node, as one machine.

"Agent: one in each office. Computer: any number." What is decided changes nothing yet: a join is written down
first, and then either all of it holds (member, name, seat) or nothing.

What an office is called: `kitchen` by the node on which it lives, `kitchen@node` by all others.

Each client is spoken to of its office as it calls it: published Agents compare that with what they were
configured with.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from bridge.connectors.offices.protocol.events import is_name
from federation.matrix.identifiers import is_server_name

AGENT: Final = "agent"
COMPUTER: Final = "computer"
MOST_MEMBERS: Final = 200


@dataclass(frozen=True, slots=True)
class Member:
    sid: str
    role: str
    name: str
    office_id: str


def is_elsewhere(member: Member) -> bool:
    """Whether it is connected to another node: then its user is its connection."""
    return member.sid.startswith("@")


# ---- what happens -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Join:
    role: str
    name: str
    office_id: str


@dataclass(frozen=True, slots=True)
class Leave:
    office_id: str


@dataclass(frozen=True, slots=True)
class Disconnect:
    """The connection is gone, or the node is about to be."""


Input: TypeAlias = Join | Leave | Disconnect


# ---- what comes of it ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing changes. The reason is what the client is told."""

    reason: str


@dataclass(frozen=True, slots=True)
class Left:
    """The others are told, and not who left."""

    member: Member


@dataclass(frozen=True, slots=True)
class Entered:
    """The others are told, and not who came."""

    member: Member


Effects: TypeAlias = tuple[Left | Entered, ...]


class State(Enum):
    """Of a connection. Its role is fixed by the first join that held."""

    NEW = "new"
    AGENT = "agent outside"
    AGENT_IN = "agent in an office"
    COMPUTER = "computer outside"
    COMPUTER_IN = "computer in an office"


class Offices:
    def __init__(self, most_members: int = MOST_MEMBERS) -> None:
        self._most_members = most_members
        self._roles: dict[str, str] = {}
        self._members: dict[str, Member] = {}
        # By office, by name.
        self._names: dict[str, dict[str, Member]] = {}
        self._agents: dict[str, Member] = {}

    # -- what is asked --

    def member(self, sid: str) -> Member | None:
        return self._members.get(sid)

    def named(self, office_id: str, name: str) -> Member | None:
        return self._names.get(office_id, {}).get(name)

    def agent(self, office_id: str) -> Member | None:
        return self._agents.get(office_id)

    def members(self, office_id: str) -> tuple[Member, ...]:
        """In the order of their coming."""
        return tuple(self._names.get(office_id, {}).values())

    def all(self) -> Iterator[Member]:
        return iter(tuple(self._members.values()))

    def state(self, sid: str) -> State:
        role, is_in = self._roles.get(sid), sid in self._members
        if role is None:
            return State.NEW
        if role == AGENT:
            return State.AGENT_IN if is_in else State.AGENT
        return State.COMPUTER_IN if is_in else State.COMPUTER

    # -- what is decided, and then done --

    def decide(self, sid: str, happened: Input) -> Refused | Effects:
        act = _TRANSITIONS[self.state(sid), type(happened)]
        return act(self, sid, happened)

    def apply(self, sid: str, effects: Effects) -> None:
        """What was decided just now."""
        for effect in effects:
            member = effect.member
            assert member.sid == sid, "a connection moves itself alone"
            if isinstance(effect, Left):
                self._take_out(member)
            else:
                self._put_in(member)

    def forget(self, sid: str) -> None:
        """The connection is gone, after it has left."""
        assert sid not in self._members, "it leaves first"
        self._roles.pop(sid, None)

    # -- inside --

    def _put_in(self, member: Member) -> None:
        self._roles[member.sid] = member.role
        self._members[member.sid] = member
        self._names.setdefault(member.office_id, {})[member.name] = member
        if member.role == AGENT:
            self._agents[member.office_id] = member

    def _take_out(self, member: Member) -> None:
        del self._members[member.sid]
        names = self._names[member.office_id]
        del names[member.name]
        if not names:
            del self._names[member.office_id]
        if member.role == AGENT:
            del self._agents[member.office_id]

    def _enter(self, sid: str, join: Join, before: Effects = ()) -> Refused | Effects:
        """Everything is checked before anything is left."""
        if join.role == AGENT and join.office_id in self._agents:
            return Refused("Room already has an agent")
        if self.named(join.office_id, join.name) is not None:
            return Refused(f"Name '{join.name}' is taken in the office")
        if len(self.members(join.office_id)) >= self._most_members:
            return Refused("Room is full")
        return (*before, Entered(Member(sid, join.role, join.name, join.office_id)))

    def join_as_agent(self, sid: str, join: Input) -> Refused | Effects:
        assert isinstance(join, Join), "the table says so"
        if join.role != AGENT:
            return Refused("Role mismatch: this connection is an agent")
        return self._enter(sid, join)

    def join_as_computer(self, sid: str, join: Input) -> Refused | Effects:
        assert isinstance(join, Join), "the table says so"
        if join.role != COMPUTER:
            return Refused("Role mismatch: this connection is a computer")
        return self._enter(sid, join)

    def join_first(self, sid: str, join: Input) -> Refused | Effects:
        assert isinstance(join, Join), "the table says so"
        return self._enter(sid, join)

    def join_again_as_agent(self, sid: str, join: Input) -> Refused | Effects:
        """ "An Agent in A that joins B is refused: leave first." """
        assert isinstance(join, Join), "the table says so"
        member = self._members[sid]
        if join.role != AGENT:
            return Refused("Role mismatch: this connection is an agent")
        if join.office_id != member.office_id:
            return Refused("Agent is already in another office: leave it first")
        return self._again(member, join)

    def move(self, sid: str, join: Input) -> Refused | Effects:
        """ "A Computer that joins another office leaves the old one first." """
        assert isinstance(join, Join), "the table says so"
        member = self._members[sid]
        if join.role != COMPUTER:
            return Refused("Role mismatch: this connection is a computer")
        if join.office_id == member.office_id:
            return self._again(member, join)
        return self._enter(sid, join, (Left(member),))

    def leave(self, sid: str, leave: Input) -> Refused | Effects:
        assert isinstance(leave, Leave), "the table says so"
        member = self._members[sid]
        if member.office_id != leave.office_id:
            return Refused("Not in office")
        return (Left(member),)

    def leave_nothing(self, sid: str, leave: Input) -> Refused | Effects:
        return Refused("Not in office")

    def go(self, sid: str, gone: Input) -> Refused | Effects:
        """ "Automatic leave: the connection ends; the server stops." """
        return (Left(self._members[sid]),)

    def go_from_nowhere(self, sid: str, gone: Input) -> Refused | Effects:
        return ()

    @staticmethod
    def _again(member: Member, join: Join) -> Refused | Effects:
        """The same member in the same office: nobody is told."""
        if join.name != member.name:
            return Refused(f"Already in the office as '{member.name}'")
        return ()


_Act: TypeAlias = Callable[[Offices, str, Input], Refused | Effects]
_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], _Act]] = {
    (State.NEW, Join): Offices.join_first,
    (State.NEW, Leave): Offices.leave_nothing,
    (State.NEW, Disconnect): Offices.go_from_nowhere,
    (State.AGENT, Join): Offices.join_as_agent,
    (State.AGENT, Leave): Offices.leave_nothing,
    (State.AGENT, Disconnect): Offices.go_from_nowhere,
    (State.AGENT_IN, Join): Offices.join_again_as_agent,
    (State.AGENT_IN, Leave): Offices.leave,
    (State.AGENT_IN, Disconnect): Offices.go,
    (State.COMPUTER, Join): Offices.join_as_computer,
    (State.COMPUTER, Leave): Offices.leave_nothing,
    (State.COMPUTER, Disconnect): Offices.go_from_nowhere,
    (State.COMPUTER_IN, Join): Offices.move,
    (State.COMPUTER_IN, Leave): Offices.leave,
    (State.COMPUTER_IN, Disconnect): Offices.go,
}


_AT: Final = "@"


@dataclass(frozen=True, slots=True)
class OfficeName:
    """`server` is that of another node; None for an office that lives here."""

    name: str
    server: str | None = None

    @property
    def office_id(self) -> str:
        """By which this node knows it, whoever calls it what."""
        return self.name if self.server is None else f"{self.name}{_AT}{self.server}"


@dataclass(frozen=True, slots=True)
class NoOffice:
    """The sentence says why nothing can be called so."""

    sentence: str


def office_name(said: str, own: Collection[str]) -> OfficeName | NoOffice:
    """`own` are the names by which others know this node. What stands behind the last @ is a node only if it
    could be one."""
    name, at, server = said.rpartition(_AT)
    if not at or not is_server_name(server):
        return OfficeName(said)
    if not is_name(name):
        return NoOffice("there must be a name in front of the @")
    if office_name(name, ()) != OfficeName(name):
        # `a@b` of this node would be `a` of the node b.
        return NoOffice("there can be one @ with a node behind it")
    return OfficeName(name, None if server in own else server)
