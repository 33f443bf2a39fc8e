"""Membership of all connections of this node in offices, as one state machine; and the names of offices.

"Agent: one in each office. Computer: any number." `decide` changes nothing: the caller records a join first
and then applies it, so that member, name and the Agent's seat change together or not at all.

The node that hosts an office calls it `kitchen`; all other nodes call it `kitchen@node`. Each client receives
the office id in the form that it used itself, because published Agents compare it with their configuration.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from bridge.connectors.offices.protocol.events import is_name
from federation.matrix.identifiers import is_server_name

AGENT: Final = "agent"
COMPUTER: Final = "computer"
DEFAULT_MAX_MEMBERS: Final = 200


@dataclass(frozen=True, slots=True)
class Member:
    """A connection `sid` that is an Agent or a Computer in an office."""

    sid: str
    role: str
    name: str
    office_id: str


def is_remote(member: Member) -> bool:
    """Whether the member is connected to another node. Its user id then takes the place of its connection
    id."""
    return member.sid.startswith("@")


# ---- inputs ---------------------------------------------------------------------------------------------


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
    """The connection has ended, or the node is about to stop."""


Input: TypeAlias = Join | Leave | Disconnect


# ---- outcomes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rejection:
    """Nothing changes. `reason` is sent to the client."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveEffect:
    """The member leaves. The other members are notified, the member itself is not."""

    member: Member


@dataclass(frozen=True, slots=True)
class EnterEffect:
    """The member enters. The other members are notified, the member itself is not."""

    member: Member


Effects: TypeAlias = tuple[LeaveEffect | EnterEffect, ...]


class State(Enum):
    """Of a connection. Its role is fixed by the first join that succeeded."""

    NEW = "new"
    AGENT = "agent outside"
    AGENT_IN = "agent in an office"
    COMPUTER = "computer outside"
    COMPUTER_IN = "computer in an office"


class OfficeMembership:
    """The members of all offices by connection, and the roles of connections."""

    def __init__(self, max_members: int = DEFAULT_MAX_MEMBERS) -> None:
        self._max_members = max_members
        self._roles: dict[str, str] = {}
        self._members: dict[str, Member] = {}
        # Office id → name → member.
        self._names: dict[str, dict[str, Member]] = {}
        self._agents: dict[str, Member] = {}

    # -- queries --

    def member(self, sid: str) -> Member | None:
        return self._members.get(sid)

    def find(self, office_id: str, name: str) -> Member | None:
        return self._names.get(office_id, {}).get(name)

    def agent(self, office_id: str) -> Member | None:
        return self._agents.get(office_id)

    def members(self, office_id: str) -> tuple[Member, ...]:
        """In the order in which they joined."""
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

    # -- transitions --

    def decide(self, sid: str, event: Input) -> Rejection | Effects:
        transition = _TRANSITIONS[self.state(sid), type(event)]
        return transition(self, sid, event)

    def apply(self, sid: str, effects: Effects) -> None:
        """Apply the effects that `decide` has just returned for this connection."""
        for effect in effects:
            member = effect.member
            assert member.sid == sid, "effects concern only their own connection"
            if isinstance(effect, LeaveEffect):
                self._remove(member)
            else:
                self._add(member)

    def forget(self, sid: str) -> None:
        """Drop the role of a connection that has ended. Its membership must have been removed before."""
        assert sid not in self._members, "the connection is still in an office"
        self._roles.pop(sid, None)

    # -- internals --

    def _add(self, member: Member) -> None:
        self._roles[member.sid] = member.role
        self._members[member.sid] = member
        self._names.setdefault(member.office_id, {})[member.name] = member
        if member.role == AGENT:
            self._agents[member.office_id] = member

    def _remove(self, member: Member) -> None:
        del self._members[member.sid]
        names = self._names[member.office_id]
        del names[member.name]
        if not names:
            del self._names[member.office_id]
        if member.role == AGENT:
            del self._agents[member.office_id]

    def _enter(self, sid: str, join: Join, before: Effects = ()) -> Rejection | Effects:
        """All checks run before the old office is left."""
        if join.role == AGENT and join.office_id in self._agents:
            return Rejection("Room already has an agent")
        if self.find(join.office_id, join.name) is not None:
            return Rejection(f"Name '{join.name}' is taken in the office")
        if len(self.members(join.office_id)) >= self._max_members:
            return Rejection("Room is full")
        return (*before, EnterEffect(Member(sid, join.role, join.name, join.office_id)))

    def join_as_agent(self, sid: str, join: Input) -> Rejection | Effects:
        assert isinstance(join, Join), _BY_TABLE
        if join.role != AGENT:
            return Rejection("Role mismatch: this connection is an agent")
        return self._enter(sid, join)

    def join_as_computer(self, sid: str, join: Input) -> Rejection | Effects:
        assert isinstance(join, Join), _BY_TABLE
        if join.role != COMPUTER:
            return Rejection("Role mismatch: this connection is a computer")
        return self._enter(sid, join)

    def join_first(self, sid: str, join: Input) -> Rejection | Effects:
        assert isinstance(join, Join), _BY_TABLE
        return self._enter(sid, join)

    def join_again_as_agent(self, sid: str, join: Input) -> Rejection | Effects:
        """ "An Agent in A that joins B is refused: leave first." """
        assert isinstance(join, Join), _BY_TABLE
        member = self._members[sid]
        if join.role != AGENT:
            return Rejection("Role mismatch: this connection is an agent")
        if join.office_id != member.office_id:
            return Rejection("Agent is already in another office: leave it first")
        return self._rejoin(member, join)

    def join_again_as_computer(self, sid: str, join: Input) -> Rejection | Effects:
        """ "A Computer that joins another office leaves the old one first." """
        assert isinstance(join, Join), _BY_TABLE
        member = self._members[sid]
        if join.role != COMPUTER:
            return Rejection("Role mismatch: this connection is a computer")
        if join.office_id == member.office_id:
            return self._rejoin(member, join)
        return self._enter(sid, join, (LeaveEffect(member),))

    def leave(self, sid: str, leave: Input) -> Rejection | Effects:
        assert isinstance(leave, Leave), _BY_TABLE
        member = self._members[sid]
        if member.office_id != leave.office_id:
            return Rejection("Not in office")
        return (LeaveEffect(member),)

    def leave_outside(self, sid: str, leave: Input) -> Rejection | Effects:
        return Rejection("Not in office")

    def disconnect(self, sid: str, event: Input) -> Rejection | Effects:
        """ "Automatic leave: the connection ends; the server stops." """
        return (LeaveEffect(self._members[sid]),)

    def disconnect_outside(self, sid: str, event: Input) -> Rejection | Effects:
        return ()

    @staticmethod
    def _rejoin(member: Member, join: Join) -> Rejection | Effects:
        """A repeated join of the same office succeeds without effect, so no member is notified."""
        if join.name != member.name:
            return Rejection(f"Already in the office as '{member.name}'")
        return ()


_BY_TABLE: Final = "the transition table selects by type"
_Transition: TypeAlias = Callable[[OfficeMembership, str, Input], Rejection | Effects]
_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], _Transition]] = {
    (State.NEW, Join): OfficeMembership.join_first,
    (State.NEW, Leave): OfficeMembership.leave_outside,
    (State.NEW, Disconnect): OfficeMembership.disconnect_outside,
    (State.AGENT, Join): OfficeMembership.join_as_agent,
    (State.AGENT, Leave): OfficeMembership.leave_outside,
    (State.AGENT, Disconnect): OfficeMembership.disconnect_outside,
    (State.AGENT_IN, Join): OfficeMembership.join_again_as_agent,
    (State.AGENT_IN, Leave): OfficeMembership.leave,
    (State.AGENT_IN, Disconnect): OfficeMembership.disconnect,
    (State.COMPUTER, Join): OfficeMembership.join_as_computer,
    (State.COMPUTER, Leave): OfficeMembership.leave_outside,
    (State.COMPUTER, Disconnect): OfficeMembership.disconnect_outside,
    (State.COMPUTER_IN, Join): OfficeMembership.join_again_as_computer,
    (State.COMPUTER_IN, Leave): OfficeMembership.leave,
    (State.COMPUTER_IN, Disconnect): OfficeMembership.disconnect,
}


_AT: Final = "@"


@dataclass(frozen=True, slots=True)
class OfficeName:
    """`server` is the node that hosts the office; None for an office of this node."""

    name: str
    server: str | None = None

    @property
    def office_id(self) -> str:
        """The id under which this node stores the office, however clients write it."""
        return self.name if self.server is None else f"{self.name}{_AT}{self.server}"


@dataclass(frozen=True, slots=True)
class InvalidOfficeName:
    """`reason` says why no office can have this name."""

    reason: str


def parse_office_name(text: str, local_names: Collection[str]) -> OfficeName | InvalidOfficeName:
    """`local_names` are the server names of this node. The part after the last @ names a node only if it is a
    valid server name."""
    name, at, server = text.rpartition(_AT)
    if not at or not is_server_name(server):
        return OfficeName(text)
    if not is_name(name):
        return InvalidOfficeName("there must be a name in front of the @")
    if parse_office_name(name, ()) != OfficeName(name):
        # `a@b` of this node could not be told apart from `a` of the node b.
        return InvalidOfficeName("there can be only one @ with a node behind it")
    return OfficeName(name, None if server in local_names else server)
