"""The members of an office that several nodes share, derived from the state of its room: the same on every
node.

Each member sends a state event about itself, with its user id as key; the room's rules forbid other senders.
A user is a member if

1. it sent the event about itself,
2. it is joined to the room,
3. the state of the office allows its server or user id,
4. the content of the event is valid,
5. no earlier member has the same name; later ones are evicted,
6. as an Agent, it holds the seat: the state event with the empty key, of which there is one. If several nodes
   seated an Agent while they were disconnected from each other, state resolution picks one.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse_version
from federation.events.room_event import RoomEvent
from federation.matrix.globs import matches_glob
from federation.matrix.identifiers import domain

MAX_PATTERNS: Final = 1_000
MAX_KEY_LENGTH: Final = 100


@dataclass(frozen=True, slots=True)
class RemoteMember:
    """A member that is not connected to this process. `public_key` encrypts for its node. `since` orders the
    offices of a connection of another process of this node: the office with the larger value is the current
    one."""

    user: str
    role: str
    name: str
    version: ProtocolVersion | None
    public_key: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class OfficeMembers:
    """Members of an office by user id; members connected to other processes of this node by connection id."""

    by_user: Mapping[str, RemoteMember]

    def named(self, name: str) -> RemoteMember | None:
        return next((one for one in self.by_user.values() if one.name == name), None)

    @property
    def agent(self) -> RemoteMember | None:
        return next((one for one in self.by_user.values() if one.role == AGENT), None)


NO_MEMBERS: Final = OfficeMembers({})


def members_of_room(
    member_events: Iterable[RoomEvent], seat: RoomEvent | None, joined: Collection[str], allowed: Collection[str]
) -> OfficeMembers:
    """`member_events` are the members' state events, `seat` is that of the seat, `joined` the users in the
    room, `allowed` the servers and user id patterns of possible members."""
    agent = seat.sender if seat is not None and seat.content.get("user") == seat.sender else None
    members: dict[str, RemoteMember] = {}
    names: set[str] = set()
    # 5
    for event in sorted(member_events, key=lambda one: (one.origin_server_ts, one.sender)):
        if event.state_key != event.sender or event.sender not in joined:  # 1, 2
            continue
        if not is_allowed(event.sender, allowed):  # 3
            continue
        member = read_member(event.sender, event.content)
        if member is None or member.name in names:  # 4, 5
            continue
        if member.role == AGENT and member.user != agent:  # 6
            continue
        names.add(member.name)
        members[member.user] = member
    return OfficeMembers(members)


def seat_holder(seat: RoomEvent | None, own: Collection[str]) -> str | None:
    """The user that holds the seat according to its state; None if it is free or held by a user in `own`."""
    if seat is None or not seat.content or seat.sender in own:
        return None
    return seat.sender


def is_active_agent(member_event: RoomEvent | None, membership: str | None) -> bool:
    """Whether the holder of the seat is still an Agent, according to its own state event, and still in the
    room."""
    return member_event is not None and member_event.content.get("role") == AGENT and membership == "join"


def is_allowed(user: str, allowed: Collection[str]) -> bool:
    """`allowed` contains servers and user id patterns."""
    server = domain(user)
    return any(matches_glob(one, user) if one.startswith("@") else one == server for one in allowed)


def read_allowed(content: Mapping[str, Any]) -> tuple[str, ...]:
    """The servers and user id patterns in the state of the office; none if the content is not valid."""
    allowed = content.get("members")
    if not isinstance(allowed, list | tuple) or len(allowed) > MAX_PATTERNS:
        return ()
    return tuple(one for one in allowed if isinstance(one, str))


def read_member(user: str, content: Mapping[str, Any]) -> RemoteMember | None:
    """None if the content is not valid."""
    role, name, public_key = content.get("role"), content.get("name"), content.get("box")
    version_text = content.get("a2c_version")
    version = parse_version(version_text) if isinstance(version_text, str) else None
    if role not in (AGENT, COMPUTER) or not isinstance(name, str) or not is_name(name):
        return None
    if not isinstance(public_key, str) or not 0 < len(public_key) <= MAX_KEY_LENGTH:
        return None
    if version_text is not None and version is None:
        return None
    return RemoteMember(user, str(role), name, version, public_key)


# -- changes of membership --


@dataclass(frozen=True, slots=True)
class RemoteLeft:
    """A remote member has left or changed; if it has changed, a `RemoteJoined` follows."""

    user: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """A member connected to this process must leave. The reason is reported to it."""

    member: Member
    reason: str


@dataclass(frozen=True, slots=True)
class RemoteJoined:
    """A remote member has joined."""

    member: RemoteMember


Change: TypeAlias = RemoteLeft | Eviction | RemoteJoined


def membership_changes(
    room: OfficeMembers, here: Sequence[Member], local: Mapping[str, str], known: Mapping[str, RemoteMember]
) -> list[Change]:
    """The changes that bring this process's view in line with the room. `here` are all members in this view,
    `local` maps the connections of this process to user ids, and `known` holds the remote members as they
    were when they were added. Members leave before others join, so that names and the seat are free."""
    local_users = frozenset(local.values())
    left: list[RemoteLeft] = []
    evictions: list[Change] = []
    for member in here:
        user = local.get(member.sid)
        if user is None:
            if room.by_user.get(member.sid) != known.get(member.sid):
                left.append(RemoteLeft(member.sid))
            continue
        reason = _eviction_reason(room, member, user, local_users)
        if reason is not None:
            evictions.append(Eviction(member, reason))
    gone = {one.user for one in left}
    present = {member.sid for member in here if member.sid not in gone}
    joined = [
        RemoteJoined(one) for user, one in room.by_user.items() if user not in local_users and user not in present
    ]
    return [*left, *evictions, *joined]


def _eviction_reason(room: OfficeMembers, member: Member, user: str, local_users: Collection[str]) -> str | None:
    """Why a member of this process must leave; None if it can stay."""
    holder = room.named(member.name)
    if holder is not None and holder.user != user and holder.user not in local_users:
        return f"the name '{member.name}' has been taken by {holder.user}"
    agent = room.agent
    if member.role == AGENT and agent is not None and agent.user != user and agent.user not in local_users:
        return f"the seat of the Agent has been taken by {agent.user}"
    return None
