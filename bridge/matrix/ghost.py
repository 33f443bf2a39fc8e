"""The Matrix user that an agent appears as.

`worker-1@kitchen.local` is `@worker-1:kitchen.local`, and back. What Matrix does not allow in the localpart
of a new user is escaped (`federation.matrix.identifiers`).

An agent on a node that is no homeserver cannot be a user of that node. It is a user of this one, its
puppet: its whole address is escaped, with an `@` that no agent of this node has in its id.

Which Matrix users are ours, and whom each of them stands for: on a homeserver of our own, and on one of
which this node is a guest.

A guest's node id is not the name of the homeserver: there `worker-1@kitchen.local` is
`@_agent_worker-1:their.server`, people live beside it, and agents of other nodes are users of that homeserver
too. Everything that speaks in rooms asks here.
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
from federation.transactions.edu_dispatcher import PresenceState


@dataclass(frozen=True, slots=True)
class NoGhost:
    """Why there is no Matrix user for this address: a sentence for whoever wants to register it."""

    reason: str


def user_id(address: AgentAddress) -> str | NoGhost:
    """The user on the agent's own node."""
    if not is_server_name(address.node_id):
        return NoGhost(
            f"The node of {harmless(str(address), 80)} has no name that a Matrix server could have."
        )
    return _user(escape(address.agent_id), address.node_id)


def address_of(user: str) -> AgentAddress | None:
    """The address that has this user for its ghost; None if there is none.

    Users of servers that do not escape have one too, unless their localpart holds a `=` or a capital. There
    is no address left for those: each belongs to the user that escapes it.
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
    """The user of this server for an agent whose node is no homeserver."""
    assert address.node_id != server_name, "an agent of this node has a ghost of its own name"
    return _user(escape(str(address)), server_name)


def puppet_of(user: str, server_name: str) -> AgentAddress | None:
    """The agent whose puppet this user of our own server is; None if it is nobody's. What users of other
    servers are called says nothing of agents elsewhere."""
    name = localpart(user)
    if not user.startswith("@") or name is None or domain(user) != server_name or not has_valid_length(user):
        return None
    text = unescape(name)
    address = AgentAddress.parse(text) if text is not None else None
    if not isinstance(address, AgentAddress) or address.node_id == server_name:
        return None
    return address


def display_name(agent_id: str) -> str:
    """In one line, with nothing in it that hides or turns round what others see."""
    shown, most = harmless(agent_id), MAX_CHARACTERS[NAME]
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _user(name: str, server: str) -> str | NoGhost:
    user = f"@{name}:{server}"
    if not has_valid_length(user):
        return NoGhost(
            f"As a Matrix user it would be called {len(user)} bytes long, and {MAX_BYTES} are allowed: choose"
            " a shorter id, or one of a-z, 0-9, '.', '_', '-', '/' and '+', which count once."
        )
    return user


# -- what is seen of it --


@dataclass(frozen=True, slots=True)
class Avatar:
    """Letters on a colour, `#rrggbb`. Agents of one runtime have the same one; `kind` is a name for it."""

    kind: str
    letters: str
    colour: str


NODE_NAME: Final = "Palaver"
"""Of the user as whom a node itself speaks."""
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
    """By runtime. One that nobody has drawn gets its own letters and a colour that is always the same."""
    known = _AVATARS.get(runtime)
    if known is not None:
        return known
    letters = "".join(one for one in runtime if one.isalnum())[:2].capitalize()
    # The upper bit of each byte is cleared: white letters can be read on it.
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
        # "unavailable: The user is not reachable at this time". It is there, and would not begin.
        AgentStatus.BUSY: Presence("unavailable", "busy"),
        AgentStatus.ERROR: Presence("unavailable", "has failed"),
        AgentStatus.SHUTDOWN: Presence("offline"),
    }
)
GONE: Final = Presence("offline")
"""Of an agent that is unregistered, or has not been heard of for too long."""


NODE_USER: Final = "palaver"
"""The localpart of the user as whom a homeserver of our own speaks."""


class GhostNames(Protocol):
    @property
    def node_id(self) -> str:
        """Of whose agents the addresses end so."""
        ...

    @property
    def domain(self) -> str:
        """What the homeserver is called, in whose rooms we speak."""
        ...

    @property
    def node_user(self) -> str:
        """As whom the node itself speaks."""
        ...

    def ghost(self, address: AgentAddress) -> str | NoGhost | None:
        """The user of ours that the agent is; None for one that is a user of another homeserver."""
        ...

    def address(self, user: str) -> AgentAddress | None:
        """The agent that this user would be, known or not; None for who cannot be one."""
        ...

    def is_ours(self, user: str) -> bool:
        """Whether this node acts as this user, and nobody else does."""
        ...


def nobody(address: AgentAddress) -> bool:
    """All other nodes are homeservers, and their agents their own users."""
    return False


@dataclass(frozen=True, slots=True)
class HomeserverGhostNames:
    """`has_puppet`: an agent of another node that is no homeserver, so that it is a user of this one."""

    node_id: str
    has_puppet: Callable[[AgentAddress], bool] = nobody

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
        return puppet_of(user, self.node_id) or address_of(user)

    def is_ours(self, user: str) -> bool:
        return domain(user) == self.node_id


@dataclass(frozen=True, slots=True)
class AppserviceGhostNames:
    """Users of other homeservers are people here: whose agents they may be, those say by the mark that is on
    what their agents say."""

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
                f"The name of {harmless(str(address), 80)} is too long for a user of {self.domain}: choose a"
                " shorter id, or one of a-z, 0-9, '.', '_', '-', '/' and '+', which count once."
            )
        return user

    def address(self, user: str) -> AgentAddress | None:
        named = None if user == self.node_user else self.namespaces.agent(user)
        address = None if named is None else AgentAddress.of(*named)
        return address if isinstance(address, AgentAddress) else None

    def is_ours(self, user: str) -> bool:
        return self.namespaces.owns_user(user)
