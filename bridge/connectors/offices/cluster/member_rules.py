"""Who is in an office by which process of this node, as it is written down: the same for every process.

Who counts:

1. whoever has joined and not left since,
2. of several of one name the one that came last: who was there before has lost its place,
3. of several Agents the one that came first.

Two and three happen only where a process was thought to have ended and had not: otherwise whoever joins
has the office for itself while that is decided and written down.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bridge.connectors.offices.federated.shared_room import Present, SharedRoom
from bridge.connectors.offices.protocol.office import AGENT, Member
from bridge.connectors.offices.protocol.versions import ProtocolVersion


@dataclass(frozen=True, slots=True)
class Seated:
    """Connected to `process` as `sid`, which is empty for who came before connections were written down.
    `since` counts all that is written down of offices."""

    process: str
    sid: str
    role: str
    name: str
    version: ProtocolVersion | None
    since: int = 0


def seated(said: Iterable[Seated]) -> tuple[Seated, ...]:
    """`said` is in the order in which they came, of each name the last (1, 2)."""
    counted: list[Seated] = []
    for one in said:
        if one.role == AGENT and any(other.role == AGENT for other in counted):  # 3
            continue
        counted.append(one)
    return tuple(counted)


def companions(there: Iterable[Seated], process: str) -> SharedRoom:
    """Those of other processes, by their connections: as if an office of several nodes had them."""
    return SharedRoom(
        {
            one.sid: Present(one.sid, one.role, one.name, one.version, "", one.since)
            for one in there
            if one.process != process and one.sid
        }
    )


def unseated(there: Collection[Seated], members: Iterable[Member], process: str) -> list[Member]:
    """Members of this process that have lost their places: it was thought to have ended."""
    seats = {one.sid for one in there if one.process == process}
    return [member for member in members if member.sid not in seats]


def is_free(there: Sequence[Seated], member: Member) -> bool:
    """Whether a member that has lost its place can have it again."""
    is_named = any(one.name == member.name for one in there)
    return not is_named and not (member.role == AGENT and any(one.role == AGENT for one in there))


def processes(there: Iterable[Seated]) -> frozenset[str]:
    return frozenset(one.process for one in there)
