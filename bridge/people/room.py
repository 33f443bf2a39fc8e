"""The kinds of rooms with agents, on which the meaning of a message depends, and the creation of agents'
rooms: `#agents-{ns}:{node}`, or an alias on the homeserver to which the node is attached."""

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
"""The type of the state event of an agents' room. Its content has the `namespace`, and the `node` that
handles requests in the room."""
MAX_MEMBERS: Final = 50
"""Maximum number of members that are cached for a room. Of a larger room only local members are cached."""


class RoomKind(StrEnum):
    LOCAL_AGENTS = "local_agents"
    """An agents' room of this node."""
    REMOTE_AGENTS = "remote_agents"
    """An agents' room of another node, which handles the requests in it."""
    NODE_CHAT = "node_chat"
    """A direct chat with the node's user."""
    AGENT_CHAT = "agent_chat"
    """A direct chat with an agent."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class RoomContext:
    """What is known about the room of a message. `senders` are joined users of this node that can send
    messages, the node's own user first."""

    room_id: str
    kind: RoomKind
    namespace: str | None = None
    chat_agent: AgentAddress | None = None
    """The agent of a direct chat."""
    senders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Members:
    """The joined and invited members of a room. `all` is None for more than `MAX_MEMBERS`."""

    all: frozenset[str] | None
    local: frozenset[str]


def members_of(users: Collection[str], is_local: Callable[[str], bool]) -> Members:
    local = frozenset(user for user in users if is_local(user))
    return Members(frozenset(users) if len(users) <= MAX_MEMBERS else None, local)


def room_context(
    room_id: str,
    members: Members,
    *,
    namespace: str | None,
    agents_room_content: Mapping[str, Any] | None,
    node: str,
    node_user: str,
    agent_of: Callable[[str], AgentAddress | None],
) -> RoomContext:
    """Determine the kind of a room. `namespace` is set for an agents' room of this node.
    `agents_room_content` is the content of its state event `AGENTS_ROOM`, which any user can write in their
    own rooms."""
    agents = {user: agent for user in members.local if (agent := agent_of(user)) is not None}
    senders = (*([node_user] if node_user in members.local else []), *sorted(agents))
    if namespace is not None:
        return RoomContext(room_id, RoomKind.LOCAL_AGENTS, namespace, senders=senders)
    owner = None if agents_room_content is None else agents_room_content.get("node")
    if isinstance(owner, str) and owner != node and is_server_name(owner):
        return RoomContext(room_id, RoomKind.REMOTE_AGENTS, senders=senders)
    if members.all is not None and len(members.all) == 2 and len(members.local) == 1:
        [user] = members.local
        if user == node_user:
            return RoomContext(room_id, RoomKind.NODE_CHAT, senders=senders)
        if user in agents:
            return RoomContext(room_id, RoomKind.AGENT_CHAT, chat_agent=agents[user], senders=senders)
    return RoomContext(room_id, RoomKind.OTHER, senders=senders)


def alias_localpart(namespace: str) -> str:
    return f"agents-{namespace}"


def alias(namespace: str, settings: PeopleSettings) -> str:
    return f"#{alias_localpart(namespace)}:{settings.names.domain}"


def creation_request(namespace: str, settings: PeopleSettings) -> CreateRoomRequest:
    """The request that creates the room of a namespace. Repeating it returns the same room. Members cannot
    invite others; the node invites people."""
    node = settings.node_id
    return CreateRoomRequest(
        creator=settings.node_user,
        version=settings.room_version,
        preset="public_chat",
        name=f"Agents of {node}" if namespace == "default" else f"Agents of {node}: {namespace}",
        topic=(
            "Every task is a thread. Mention an agent to give it a task, reply in the thread to continue, and"
            f" react with ❌ to cancel. Send “{one_line(settings.prefix, 40)} help” for more."
        ),
        alias=alias_localpart(namespace),
        listed=settings.is_listed,
        initial_state=(InitialState(AGENTS_ROOM, {"namespace": namespace, "node": node}),),
        power_levels={"invite": 50},
        join_rule=settings.join_rule,
        key=f"people/{namespace}",
    )
