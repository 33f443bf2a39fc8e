"""Who is in an office that several nodes share, as its room has it: the same on every node.

A member says of itself that it is one, under its own user; the room's rules let nobody else say it. Who
counts:

1. whoever wrote it under their own name,
2. and is in the room,
3. and may be in offices of that node, which says so in the room,
4. and has said it in the form that it has.
5. Of several of one name the one that came first; the others leave.
6. Of Agents the one that sits: the state with the empty key is one, whatever happened while nodes were cut
off from each other, and Matrix decides which.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion, parse
from federation.events.room_event import RoomEvent
from federation.matrix.globs import matches_glob
from federation.matrix.identifiers import domain

MOST_PATTERNS: Final = 1_000
LONGEST_KEY: Final = 100


@dataclass(frozen=True, slots=True)
class Present:
    """`box` is the public key for what only its node is to read. `since` orders where one of this node has
    been: a later one is newer."""

    user: str
    role: str
    name: str
    version: ProtocolVersion | None
    box: str
    since: int = 0


@dataclass(frozen=True, slots=True)
class SharedRoom:
    """By their users."""

    members: Mapping[str, Present]

    def named(self, name: str) -> Present | None:
        return next((one for one in self.members.values() if one.name == name), None)

    @property
    def agent(self) -> Present | None:
        return next((one for one in self.members.values() if one.role == AGENT), None)


NOBODY: Final = SharedRoom({})


def shared_room(
    said: Iterable[RoomEvent], seat: RoomEvent | None, joined: Collection[str], allowed: Collection[str]
) -> SharedRoom:
    """`said` is what members say of themselves, `seat` the state of the seat, `joined` who is in the room."""
    sits = seat.sender if seat is not None and seat.content.get("user") == seat.sender else None
    members: dict[str, Present] = {}
    names: set[str] = set()
    # 5
    for event in sorted(said, key=lambda one: (one.origin_server_ts, one.sender)):
        if event.state_key != event.sender or event.sender not in joined:  # 1, 2
            continue
        if not may_take_part(event.sender, allowed):  # 3
            continue
        member = read_member(event.sender, event.content)
        if member is None or member.name in names:  # 4, 5
            continue
        if member.role == AGENT and member.user != sits:  # 6
            continue
        names.add(member.name)
        members[member.user] = member
    return SharedRoom(members)


def sits(seat: RoomEvent | None, own: Collection[str]) -> str | None:
    """Who else has the seat, as its state says: one of another node may have been quicker, and stays."""
    if seat is None or not seat.content or seat.sender in own:
        return None
    return seat.sender


def keeps_seat(said: RoomEvent | None, membership: str | None) -> bool:
    """Whether that one is an Agent still, by what it says of itself, and in the room."""
    return said is not None and said.content.get("role") == AGENT and membership == "join"


def may_take_part(user: str, allowed: Collection[str]) -> bool:
    """`allowed` names servers, and users by pattern."""
    server = domain(user)
    return any(matches_glob(one, user) if one.startswith("@") else one == server for one in allowed)


def read_allowed(content: Mapping[str, Any]) -> tuple[str, ...]:
    """As the state of the office has it."""
    said = content.get("members")
    if not isinstance(said, list | tuple) or len(said) > MOST_PATTERNS:
        return ()
    return tuple(one for one in said if isinstance(one, str))


def read_member(user: str, content: Mapping[str, Any]) -> Present | None:
    role, name, box = content.get("role"), content.get("name"), content.get("box")
    said = content.get("a2c_version")
    version = parse(said) if isinstance(said, str) else None
    if role not in (AGENT, COMPUTER) or not isinstance(name, str) or not is_name(name):
        return None
    if not isinstance(box, str) or not 0 < len(box) <= LONGEST_KEY or not (said is None or version):
        return None
    return Present(user, str(role), name, version, box)


# -- what follows --


@dataclass(frozen=True, slots=True)
class Gone:
    """A member of another node is there no more."""

    user: str


@dataclass(frozen=True, slots=True)
class Evicted:
    """A member of ours has to leave, and is told why."""

    member: Member
    reason: str


@dataclass(frozen=True, slots=True)
class Come:
    """A member of another node is there."""

    member: Present


Change: TypeAlias = Gone | Evicted | Come


def changes(
    room: SharedRoom, here: Sequence[Member], ours: Mapping[str, str], known: Mapping[str, Present]
) -> list[Change]:
    """What is to be done so that what we have is what the room has. `here` are the members that we have, of
    other nodes too; `ours` are the users of those that are connected to us, by their connections; `known` are
    those of other nodes, as they were. Who goes makes room for who comes."""
    own_users = frozenset(ours.values())
    gone: list[Change] = []
    evicted: list[Change] = []
    for member in here:
        user = ours.get(member.sid)
        if user is None:
            if room.members.get(member.sid) != known.get(member.sid):
                gone.append(Gone(member.sid))
            continue
        reason = _reason(room, member, user, own_users)
        if reason is not None:
            evicted.append(Evicted(member, reason))
    left = {one.user for one in gone if isinstance(one, Gone)}
    there = {member.sid for member in here if member.sid not in left}
    come = [Come(one) for user, one in room.members.items() if user not in own_users and user not in there]
    return [*gone, *evicted, *come]


def _reason(room: SharedRoom, member: Member, user: str, own_users: Collection[str]) -> str | None:
    """Why a member of ours cannot stay; None if it can."""
    holder = room.named(member.name)
    if holder is not None and holder.user != user and holder.user not in own_users:
        return f"the name '{member.name}' has been taken by {holder.user}"
    sits = room.agent
    if member.role == AGENT and sits is not None and sits.user != user and sits.user not in own_users:
        return f"the seat of the Agent has gone to {sits.user}"
    return None
