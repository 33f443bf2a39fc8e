"""Maps agents to the Matrix users that represent them.

`worker-1@kitchen.local` is `@worker-1:kitchen.local`, and back. Characters that Matrix does not allow in the
localpart of a new user are escaped (`federation.matrix.identifiers`).

An agent on a node that is not a homeserver cannot be a user of that node. It is a user of this one, its
puppet: its whole address is escaped, with an `@`, which no agent id of this node contains.

`GhostNames` answers which Matrix users this node acts as and which agent each represents, for a node that is
a homeserver and for one that is attached to one. The node id of an attached node is not its homeserver's
name: there `worker-1@kitchen.local` is `@_agent_worker-1:their.server`, people are users beside it, and
agents of other nodes are users of that homeserver too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from types import MappingProxyType
from typing import Final, Protocol

from appservice.registration.namespaces import Namespaces
from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus
from bridge.text.terminal import harmless
from federation.directory.profile import MAX_CHARACTERS, NAME
from federation.matrix.identifiers import (
    MAX_BYTES,
    domain,
    escape,
    has_valid_length,
    is_server_name,
    localpart,
    unescape,
)
from federation.transactions.edus import PresenceState


@dataclass(frozen=True, slots=True)
class NoGhost:
    """Why there is no Matrix user for the address: a sentence for the registrant."""

    reason: str


def user_id(address: AgentAddress) -> str | NoGhost:
    """The user on the agent's own node."""
    if not is_server_name(address.node_id):
        return NoGhost(f"The node name in {harmless(str(address), 80)} is not a valid Matrix server name.")
    return _user(escape(address.agent_id), address.node_id)


def address_of(user: str) -> AgentAddress | None:
    """The address whose ghost this user is; None if there is none.

    Users of servers that do not escape have an address too, unless their localpart contains a `=` or a
    capital letter. Those have none, because each address belongs to the user that escapes it.
    """
    # "The sender's domain may carry a port: split at the first colon."
    name, server = localpart(user), domain(user)
    if not user.startswith("@") or name is None or server is None or not has_valid_length(user):
        return None
    agent_id = unescape(name)
    if agent_id is None or not is_server_name(server):
        return None
    address = AgentAddress.of(agent_id, server)
    return address if isinstance(address, AgentAddress) else None


def puppet_id(address: AgentAddress, server_name: str) -> str | NoGhost:
    """The user of this server for an agent whose node is not a homeserver."""
    assert address.node_id != server_name, "an agent of this node has its own ghost"
    return _user(escape(str(address)), server_name)


def agent_of_puppet(user: str, server_name: str) -> AgentAddress | None:
    """The agent whose puppet this user of the own server is, or None. User names on other servers do not
    denote agents elsewhere."""
    name = localpart(user)
    if not user.startswith("@") or name is None or domain(user) != server_name or not has_valid_length(user):
        return None
    text = unescape(name)
    address = AgentAddress.parse(text) if text is not None else None
    if not isinstance(address, AgentAddress) or address.node_id == server_name:
        return None
    return address


def display_name(agent_id: str) -> str:
    """In one line, without characters that hide or reverse other text."""
    text, limit = harmless(agent_id), MAX_CHARACTERS[NAME]
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _user(name: str, server: str) -> str | NoGhost:
    user = f"@{name}:{server}"
    if not has_valid_length(user):
        return NoGhost(
            f"Its Matrix user id would have {len(user)} bytes, but {MAX_BYTES} are allowed: choose"
            " a shorter id, or one of a-z, 0-9, '.', '_', '-', '/' and '+', which need no escaping."
        )
    return user


# -- appearance --


@dataclass(frozen=True, slots=True)
class Avatar:
    """Letters on a colour, `#rrggbb`. Agents of one runtime share one; `kind` is its name."""

    kind: str
    letters: str
    colour: str


NODE_NAME: Final = "Palaver"
"""The display name of the node's own user."""
NODE_AVATAR: Final = Avatar("palaver", "P", "#37474f")

_AVATARS: Final[Mapping[str, Avatar]] = MappingProxyType(
    {
        avatar.kind: avatar
        for avatar in (
            Avatar("claude", "Cl", "#b85c38"),
            Avatar("open_code", "Oc", "#1f6f54"),
            Avatar("kimi", "Ki", "#2d5aa8"),
            Avatar("aider", "Ai", "#6b3fa0"),
        )
    }
)


@lru_cache(maxsize=1_000)
def avatar(runtime: str) -> Avatar:
    """The avatar of a runtime. A runtime without a predefined one gets its initial letters and a stable
    colour."""
    known = _AVATARS.get(runtime)
    if known is not None:
        return known
    letters = "".join(one for one in runtime if one.isalnum())[:2].capitalize()
    # The upper bit of each byte is cleared, so that white letters are readable.
    red, green, blue = (byte & 0x7F for byte in sha256(runtime.encode("utf-8", "replace")).digest()[:3])
    return Avatar(f"other-{red:02x}{green:02x}{blue:02x}", letters or "?", f"#{red:02x}{green:02x}{blue:02x}")


@dataclass(frozen=True, slots=True)
class Presence:
    state: PresenceState
    status: str | None = None


PRESENCE: Final[Mapping[AgentStatus, Presence]] = MappingProxyType(
    {
        AgentStatus.INITIAL: Presence("offline"),
        AgentStatus.RUNNING: Presence("online"),
        AgentStatus.IDLE: Presence("online"),
        # "unavailable: The user is not reachable at this time". The agent is online, but would not begin a
        # task.
        AgentStatus.BUSY: Presence("unavailable", "busy"),
        AgentStatus.ERROR: Presence("unavailable", "has failed"),
        AgentStatus.SHUTDOWN: Presence("offline"),
    }
)
GONE: Final = Presence("offline")
"""For an agent that is unregistered or has sent no heartbeat for too long."""


NODE_USER: Final = "palaver"
"""The localpart of the node's own user if the node is a homeserver."""


class GhostNames(Protocol):
    @property
    def node_id(self) -> str:
        """The node id in the addresses of this node's agents."""
        ...

    @property
    def domain(self) -> str:
        """The server name of the homeserver that has the rooms."""
        ...

    @property
    def node_user(self) -> str:
        """The node's own user."""
        ...

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        """The local user that represents the agent; None for an agent that is a user of another
        homeserver."""
        ...

    def address(self, user: str) -> AgentAddress | None:
        """The agent that this user would represent, known or not; None if it cannot represent one."""
        ...

    def is_ours(self, user: str) -> bool:
        """Whether this node, and no other, acts as this user."""
        ...


def no_puppets(address: AgentAddress) -> bool:
    """The default: all other nodes are homeservers, and their agents are their own users."""
    return False


@dataclass(frozen=True, slots=True)
class HomeserverGhostNames:
    """`has_puppet`: whether the node of another agent is not a homeserver, so that the agent is a user of
    this one."""

    node_id: str
    has_puppet: Callable[[AgentAddress], bool] = no_puppets

    @property
    def domain(self) -> str:
        return self.node_id

    @property
    def node_user(self) -> str:
        return f"@{NODE_USER}:{self.node_id}"

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        if address.node_id == self.node_id:
            return user_id(address)
        return puppet_id(address, self.node_id) if self.has_puppet(address) else None

    def address(self, user: str) -> AgentAddress | None:
        if user == self.node_user:
            return None
        return agent_of_puppet(user, self.node_id) or address_of(user)

    def is_ours(self, user: str) -> bool:
        return domain(user) == self.node_id


@dataclass(frozen=True, slots=True)
class AppserviceGhostNames:
    """Users of other homeservers count as people; messages of their agents are recognised by their mark."""

    namespaces: Namespaces

    @property
    def node_id(self) -> str:
        return self.namespaces.node_id

    @property
    def domain(self) -> str:
        return self.namespaces.domain

    @property
    def node_user(self) -> str:
        return self.namespaces.node_user

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        user = self.namespaces.user(address.agent_id, address.node_id)
        if user is None:
            return NoGhost(
                f"{harmless(str(address), 80)} is too long for a user id on {self.domain}: choose a"
                " shorter id, or one of a-z, 0-9, '.', '_', '-', '/' and '+', which need no escaping."
            )
        return user

    def address(self, user: str) -> AgentAddress | None:
        named = None if user == self.node_user else self.namespaces.agent(user)
        address = None if named is None else AgentAddress.of(*named)
        return address if isinstance(address, AgentAddress) else None

    def is_ours(self, user: str) -> bool:
        return self.namespaces.owns_user(user)
