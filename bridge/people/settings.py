"""Settings for people and agents' rooms, converted from the configuration."""

from dataclasses import dataclass
from typing import Final, Literal

from bridge.matrix.ghost import GhostNames
from bridge.people.commands import PREFIX
from bridge.people.permissions import Rights
from federation.matrix.room_version import DEFAULT_ROOM_VERSION
from federation.peers.limits import Rate

NAME: Final = "people"
"""The protocol of tasks that people request in rooms."""

Show = Literal["all", "asked"]
JoinRule = Literal["public", "knock", "invite"]

DEFAULT_RIGHTS: Final = Rights()
REQUEST_RATE: Final = Rate(2, 30)
REFUSAL_RATE: Final = Rate(0.2, 10)
SHOWN_TASK_RATE: Final = Rate(5, 100)


@dataclass(frozen=True, slots=True)
class PeopleSettings:
    """`show` chooses whether people see all tasks, or only those that people have requested. The first
    namespace is the default of agents."""

    names: GhostNames
    namespaces: tuple[str, ...] = ("default",)
    rights: Rights = DEFAULT_RIGHTS
    join_rule: JoinRule = "public"
    is_listed: bool = False
    room_version: str = DEFAULT_ROOM_VERSION.id
    show: Show = "all"
    prefix: str = PREFIX
    # Maximum number of local agents that join an agents' room at once. Others join with their first message.
    members: int = 200
    # Limit for the requests and commands of one person.
    request_rate: Rate = REQUEST_RATE
    # Limit for refusals sent to one person. Further refusals are not sent.
    refusal_rate: Rate = REFUSAL_RATE
    # Limit for showing tasks in a room that no person has requested. People could not read more.
    shown_task_rate: Rate = SHOWN_TASK_RATE

    @property
    def node_id(self) -> str:
        return self.names.node_id

    @property
    def node_user(self) -> str:
        return self.names.node_user
