"""Which members are in an office, connected to which process of this node, according to the call log. Every
process derives the same result:

1. a member that has joined and not left since,
2. of several members with one name, the last to join: the earlier one has been displaced,
3. of several Agents, the first to join.

Rules 2 and 3 matter only if a process was treated as ended but was still running. Otherwise a join holds a
lock on its office while it is decided and recorded.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bridge.connectors.offices.federated.shared_room import OfficeMembers, RemoteMember
from bridge.connectors.offices.protocol.office import AGENT, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion


@dataclass(frozen=True, slots=True)
class RecordedMember:
    """`sid` is its connection at `process`; it is empty in records from before connections were recorded.
    `since` is the position of the record."""

    process: str
    sid: str
    role: str
    name: str
    version: ProtocolVersion | None
    since: int = 0


def active_members(recorded: Iterable[RecordedMember]) -> tuple[RecordedMember, ...]:
    """`recorded` is in the order of joining, with the last record of each name (rules 1 and 2)."""
    active: list[RecordedMember] = []
    for one in recorded:
        if one.role == AGENT and any(other.role == AGENT for other in active):  # 3
            continue
        active.append(one)
    return tuple(active)


def members_of_other_processes(active: Iterable[RecordedMember], process: str) -> OfficeMembers:
    """In the form of members of other nodes, with connection ids in place of user ids."""
    return OfficeMembers(
        {
            one.sid: RemoteMember(one.sid, one.role, one.name, one.version, "", one.since)
            for one in active
            if one.process != process and one.sid
        }
    )


def displaced_members(active: Collection[RecordedMember], members: Iterable[Member], process: str) -> list[Member]:
    """Members of this process that are no longer recorded, because another process treated this one as
    ended."""
    recorded = {one.sid for one in active if one.process == process}
    return [member for member in members if member.sid not in recorded]


def can_restore(others: Sequence[RecordedMember], member: Member) -> bool:
    """Whether a displaced member's name and seat are still free. `others` are the office's other members."""
    is_named = any(one.name == member.name for one in others)
    return not is_named and not (member.role == AGENT and any(one.role == AGENT for one in others))


def processes_of(members: Iterable[RecordedMember]) -> frozenset[str]:
    return frozenset(one.process for one in members)
