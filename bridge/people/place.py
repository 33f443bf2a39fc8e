"""What kind of room something is said in, which decides what is meant by it.

The room in which the agents of a namespace work where people see it: `#agents-{ns}:{node}`, or on the
homeserver of which the node is a guest.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.people.settings import PeopleSettings
from bridge.people.texts.text import one_line
from federation.matrix.identifiers import is_server_name
from federation.rooms.creation import CreateRoomRequest, InitialState

AGENTS_ROOM: Final = "io.palaver.agents"
"""State of a room of agents: `namespace`, and `node`, which gives out the work in it."""
MOST_TOLD_APART: Final = 50
"""Members by whose names a room is remembered. In a larger one only those of this node are of interest."""


class Kind(StrEnum):
    OWN = "own"
    """A room of agents, of this node."""
    FOREIGN = "foreign"
    """A room of agents, of another node: that one gives out the work in it."""
    DESK = "desk"
    """A chat of two, one of them the node itself."""
    CHAT = "chat"
    """A chat of two, one of them an agent."""
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class Place:
    """`speakers` are users of this node who are there and could say something: the node itself first."""

    room_id: str
    kind: Kind
    namespace: str | None = None
    partner: AgentAddress | None = None
    """Of a chat."""
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Members:
    """Those who are in a room or invited into it; `all` is None for more than can be told apart."""

    all: frozenset[str] | None
    ours: frozenset[str]


def members_of(users: Collection[str], is_ours: Callable[[str], bool]) -> Members:
    ours = frozenset(user for user in users if is_ours(user))
    return Members(frozenset(users) if len(users) <= MOST_TOLD_APART else None, ours)


def place_of(
    room_id: str,
    members: Members,
    *,
    namespace: str | None,
    room_of_agents: Mapping[str, Any] | None,
    node: str,
    node_user: str,
    agent_of: Callable[[str], AgentAddress | None],
) -> Place:
    """`namespace` is that of a room which this node has made. `room_of_agents` is the state of that type,
    which anybody may write into a room of theirs."""
    agents = {user: agent for user in members.ours if (agent := agent_of(user)) is not None}
    speakers = (*([node_user] if node_user in members.ours else []), *sorted(agents))
    if namespace is not None:
        return Place(room_id, Kind.OWN, namespace, speakers=speakers)
    whose = None if room_of_agents is None else room_of_agents.get("node")
    if isinstance(whose, str) and whose != node and is_server_name(whose):
        return Place(room_id, Kind.FOREIGN, speakers=speakers)
    if members.all is not None and len(members.all) == 2 and len(members.ours) == 1:
        [user] = members.ours
        if user == node_user:
            return Place(room_id, Kind.DESK, speakers=speakers)
        if user in agents:
            return Place(room_id, Kind.CHAT, partner=agents[user], speakers=speakers)
    return Place(room_id, Kind.ROOM, speakers=speakers)


def alias_localpart(namespace: str) -> str:
    return f"agents-{namespace}"


def alias(namespace: str, settings: PeopleSettings) -> str:
    return f"#{alias_localpart(namespace)}:{settings.names.domain}"


def request_for(namespace: str, settings: PeopleSettings) -> CreateRoomRequest:
    """Asked for again it is the same room. Who is in it cannot bring in others: the node does that."""
    node = settings.node_id
    return CreateRoomRequest(
        creator=settings.node_user,
        version=settings.room_version,
        preset="public_chat",
        name=f"Agents of {node}" if namespace == "default" else f"Agents of {node}: {namespace}",
        topic=(
            "Each task is a thread. Mention an agent to give it work, answer in a thread to go on with it,"
            f" and react with ❌ to take it back. “{one_line(settings.prefix, 40)} help” tells more."
        ),
        alias=alias_localpart(namespace),
        listed=settings.is_listed,
        initial_state=(InitialState(AGENTS_ROOM, {"namespace": namespace, "node": node}),),
        power_levels={"invite": 50},
        join_rule=settings.join_rule,
        key=f"people/{namespace}",
    )
