"""Maps agents to user ids and rooms to aliases in this node's namespaces on the homeserver.

An attached node has a name of its own: the agent `worker-1@kitchen.local` of the node `kitchen.local` is
`@_agent_worker-1:their.server`. An agent of another node is escaped with its whole address,
`worker-1@cellar.local` as `@_agent_worker-1=40cellar.local:their.server`: no agent id contains an `@`, so it
cannot collide with a local agent, and no two addresses share a user.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from federation.matrix.identifiers import domain, escape, has_valid_length, is_server_name, localpart, unescape

AT: Final = "@"
RoomKind = Literal["agents", "agent-federation", "agent-broadcast", "office"]

_PREFIX: Final = re.compile(r"[a-z0-9._/+-]{1,64}", re.ASCII)
_OF_NAMESPACES: Final[tuple[RoomKind, ...]] = ("agents", "agent-federation")
_BROADCAST: Final[RoomKind] = "agent-broadcast"
OFFICE: Final[RoomKind] = "office"
"""Its aliases are always reserved; registration files from before offices existed lack them."""

SENDER: Final = "palaver-"
"""Prefix of the sender user that the registration itself creates. That user joins no rooms: the node acts as
a ghost like the others, otherwise each event for it would be pushed twice."""

NODE_AGENT: Final = "palaver"
"""The local name of the node's own user; no agent has this id."""


@dataclass(frozen=True, slots=True)
class AgentRoom:
    """`namespace` is empty for the broadcast room, of which a node has one. For an office it is the escaped
    part of its alias; the offices connector interprets it."""

    kind: RoomKind
    namespace: str


@dataclass(frozen=True, slots=True)
class Namespaces:
    """`domain` is the homeserver's server name, `node_id` this node's."""

    domain: str
    node_id: str
    user_prefix: str

    def user(self, agent_id: str, node_id: str) -> str | None:
        """The ghost of an agent of any node; None if the user id would be too long for Matrix."""
        name = agent_id if node_id == self.node_id else f"{agent_id}{AT}{node_id}"
        user = f"@{self.user_prefix}{escape(name)}:{self.domain}"
        return user if has_valid_length(user) else None

    @property
    def node_user(self) -> str:
        return f"@{self.user_prefix}{NODE_AGENT}:{self.domain}"

    def agent(self, user: str) -> tuple[str, str] | None:
        """Return agent id and node id of the agent whose ghost this is, or None."""
        name = self._name(user, "@")
        if name is None or not name.startswith(self.user_prefix):
            return None
        text = unescape(name.removeprefix(self.user_prefix))
        if text is None or "\0" in text:
            return None
        agent_id, at, node_id = text.partition(AT)
        if not at:
            return agent_id, self.node_id
        # A local agent is never written with its node id, so that it has one user id.
        if not agent_id or not node_id or AT in node_id or node_id == self.node_id:
            return None
        return agent_id, node_id

    def alias(self, room: AgentRoom) -> str | None:
        """None if the alias would be too long for Matrix."""
        alias = f"#{_localpart(room)}:{self.domain}"
        return alias if has_valid_length(alias) else None

    def room(self, alias: str) -> AgentRoom | None:
        name = self._name(alias, "#")
        if name is None:
            return None
        if name == _BROADCAST:
            return AgentRoom(_BROADCAST, "")
        if name.startswith(f"{OFFICE}-"):
            office = name.removeprefix(f"{OFFICE}-")
            return AgentRoom(OFFICE, office) if office and "\0" not in office else None
        for kind in _OF_NAMESPACES:
            namespace = unescape(name.removeprefix(f"{kind}-")) if name.startswith(f"{kind}-") else None
            if namespace is not None and "\0" not in namespace:
                return AgentRoom(kind, namespace)
        return None

    def owns_user(self, user: str) -> bool:
        """Whether the namespace reserves this user id, whether or not it is a valid ghost."""
        name = self._name(user, "@")
        return name is not None and len(name) > len(self.user_prefix) and name.startswith(self.user_prefix)

    @property
    def users_regex(self) -> str:
        """Wide, because a regex that encoded the escaping would lose ghosts when the escaping changes.
        Homeservers differ in whether they match from the start of the id, so it is anchored on both sides."""
        return f"^@{re.escape(self.user_prefix)}.+:{re.escape(self.domain)}$"

    @property
    def aliases_regexes(self) -> tuple[str, ...]:
        of_namespaces = [f"^#{kind}-.+:{re.escape(self.domain)}$" for kind in _OF_NAMESPACES]
        return (*of_namespaces, f"^#{_BROADCAST}:{re.escape(self.domain)}$", self.offices_regex)

    @property
    def offices_regex(self) -> str:
        """One of `aliases_regexes`. Registrations made before offices existed do not have it."""
        return f"^#{OFFICE}-.+:{re.escape(self.domain)}$"

    def _name(self, text: str, sigil: str) -> str | None:
        # Namespaces only match users and aliases of the homeserver itself.
        if not text.startswith(sigil) or domain(text) != self.domain or not has_valid_length(text):
            return None
        return localpart(text)


def _localpart(room: AgentRoom) -> str:
    match room.kind:
        case "agent-broadcast":
            return room.kind
        case "office":
            return f"{room.kind}-{room.namespace}"
    return f"{room.kind}-{escape(room.namespace)}"


def prefix_problem(prefix: str) -> str | None:
    """Why ghosts cannot have this prefix: a sentence for the operator. None if they can."""
    if _PREFIX.fullmatch(prefix) is None:
        return "The prefix of ghosts consists of 1 to 64 of a-z, 0-9, '.', '_', '-', '/' and '+'."
    if prefix.startswith(SENDER) or SENDER.startswith(prefix):
        return f"User names that begin with {SENDER} are the senders of registrations: choose another prefix."
    return None


def domain_problem(name: str) -> str | None:
    """Why this cannot be a homeserver's server name."""
    return None if is_server_name(name) else f"{name[:80]!r} is not a server name."
