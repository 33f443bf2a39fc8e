"""What the configuration says of people and agents."""

from dataclasses import dataclass
from typing import Final, Literal

from bridge.matrix.ghost import GhostNames
from bridge.people.commands import PREFIX
from bridge.people.permissions import Rights
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from federation.peers.limits import Rate

NAME: Final = "people"
"""The protocol in which people ask for tasks."""

Show = Literal["all", "asked"]
JoinRule = Literal["public", "knock", "invite"]

EVERYBODY_LOOKS: Final = Rights()
OF_PERSON: Final = Rate(2, 30)
REFUSALS: Final = Rate(0.2, 10)
SHOWN: Final = Rate(5, 100)


@dataclass(frozen=True, slots=True)
class PeopleSettings:
    """`show`: whether people see all tasks, or those that people have asked for. The first namespace is that
    of agents of which nothing else is known."""

    names: GhostNames
    namespaces: tuple[str, ...] = ("default",)
    rights: Rights = EVERYBODY_LOOKS
    join_rule: JoinRule = "public"
    is_listed: bool = False
    room_version: str = DEFAULT_ROOM_VERSION.id
    show: Show = "all"
    prefix: str = PREFIX
    # Agents of this node that are put into a room of agents from the beginning; others come when they speak.
    members: int = 200
    # What one person may ask for, tasks and commands.
    of_person: Rate = OF_PERSON
    # Words of refusal to one person; beyond that there is silence.
    refusals: Rate = REFUSALS
    # Tasks that nobody has asked for in a room: more than that a second nobody reads.
    shown: Rate = SHOWN

    @property
    def node_id(self) -> str:
        return self.names.node_id

    @property
    def node_user(self) -> str:
        return self.names.node_user
