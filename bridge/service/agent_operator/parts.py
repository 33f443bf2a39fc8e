"""What the commands for agents and tasks work on."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bridge.service.agent_operator.in_a_name import ForPeople
from bridge.service.agent_operator.replies import OperatorReply
from bridge.service.centre import LocalAgents
from bridge.service.live_feed import LiveFeed
from bridge.service.routing_table import RoutingTable
from bridge.service.task_desk import TaskDesk
from storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Of one node. `replies` is what its centre was given for the protocol `replies.PROTOCOL`; `configured`
    are the ids of the agents that the configuration names. `for_people` is there where people live."""

    node_id: str
    database: Database
    routes: RoutingTable
    desk: TaskDesk
    local: LocalAgents
    replies: OperatorReply
    feed: LiveFeed
    configured: Collection[str]
    now_ms: Callable[[], int]
    for_people: ForPeople | None = None
