"""Which names on the homeserver are ours, and what each of them stands for.

A guest is not the homeserver of its own name: the agent `worker-1@kitchen.local` of the node `kitchen.local`
is `@_agent_worker-1:their.server`. An agent of another node is escaped with its whole address,
`worker-1@cellar.local` as `@_agent_worker-1=40cellar.local:their.server`: no agent has an `@` in its id, so
that it cannot be one of ours, and no two addresses have one user.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

from federation.matrix.identifiers import (
    domain,
    escape,
    has_valid_length,
    is_server_name,
    localpart,
    unescape,
)

AT: Final = "@"
RoomKind = Literal["agents", "agent-federation", "agent-broadcast", "office"]

_PREFIX: Final = re.compile(r"[a-z0-9._/+-]{1,64}", re.ASCII)
_OF_NAMESPACES: Final[tuple[RoomKind, ...]] = ("agents", "agent-federation")
_BROADCAST: Final[RoomKind] = "agent-broadcast"
OFFICE: Final[RoomKind] = "office"
"""Its aliases are always reserved; a file that was written before there were offices does not have them."""

SENDER: Final = "palaver-"
"""How the user begins whom the registration itself makes. It is in no room: the node speaks as a ghost like
the others, or each event for it would come twice."""

NODE_AGENT: Final = "palaver"
"""As whom the node itself speaks: no agent is called so."""


@dataclass(frozen=True, slots=True)
class AgentRoom:
    """`namespace` is empty for the room of broadcasts, of which a node has one. Of an office it is what its
    alias says of it, as it is written there: which office that is, offices know."""

    kind: RoomKind
    namespace: str


@dataclass(frozen=True, slots=True)
class Namespaces:
    """`domain` is what the homeserver is called, `node_id` this node."""

    domain: str
    node_id: str
    user_prefix: str

    def user(self, agent_id: str, node_id: str) -> str | None:
        """The ghost of an agent of any node; None when its id would be longer than Matrix allows."""
        name = agent_id if node_id == self.node_id else f"{agent_id}{AT}{node_id}"
        user = f"@{self.user_prefix}{escape(name)}:{self.domain}"
        return user if has_valid_length(user) else None

    @property
    def node_user(self) -> str:
        return f"@{self.user_prefix}{NODE_AGENT}:{self.domain}"

    def agent(self, user: str) -> tuple[str, str] | None:
        """Id and node of the agent whose ghost this is; None if it is nobody's."""
        name = self._name(user, "@")
        if name is None or not name.startswith(self.user_prefix):
            return None
        text = unescape(name.removeprefix(self.user_prefix))
        if text is None or "\0" in text:
            return None
        agent_id, at, node_id = text.partition(AT)
        if not at:
            return agent_id, self.node_id
        # An agent of ours is never written with its node: it has one user.
        if not agent_id or not node_id or AT in node_id or node_id == self.node_id:
            return None
        return agent_id, node_id

    def alias(self, room: AgentRoom) -> str | None:
        """None when it would be longer than Matrix allows."""
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
        """Whether nobody else can register it, whether or not an agent could be called so."""
        name = self._name(user, "@")
        return name is not None and len(name) > len(self.user_prefix) and name.startswith(self.user_prefix)

    @property
    def users_regex(self) -> str:
        """Wide: one that knew how ghosts are escaped would keep them from being registered as soon as that
        changed. Some homeservers look for it from the beginning of the id, some anywhere, so that it says
        where it begins and ends."""
        return f"^@{re.escape(self.user_prefix)}.+:{re.escape(self.domain)}$"

    @property
    def aliases_regexes(self) -> tuple[str, ...]:
        of_namespaces = [f"^#{kind}-.+:{re.escape(self.domain)}$" for kind in _OF_NAMESPACES]
        return (*of_namespaces, f"^#{_BROADCAST}:{re.escape(self.domain)}$", self.offices_regex)

    @property
    def offices_regex(self) -> str:
        """One of the former. Registrations of before there were offices do not have it."""
        return f"^#{OFFICE}-.+:{re.escape(self.domain)}$"

    def _name(self, text: str, sigil: str) -> str | None:
        # "The users namespace" matches users of the homeserver alone; so do aliases.
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


def wrong_prefix(prefix: str) -> str | None:
    """Why ghosts cannot begin so: a sentence for whoever configures it. None if all is well."""
    if _PREFIX.fullmatch(prefix) is None:
        return "The prefix of ghosts has 1 to 64 of a-z, 0-9, '.', '_', '-', '/' and '+'."
    if prefix.startswith(SENDER) or SENDER.startswith(prefix):
        return f"Users that begin with {SENDER} are those of registrations themselves: choose another prefix."
    return None


def wrong_domain(name: str) -> str | None:
    """Why no homeserver is called so."""
    return None if is_server_name(name) else f"{name[:80]!r} is not the name of a server."
