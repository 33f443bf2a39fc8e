"""What an operator asks of a guest. What only a homeserver can answer is refused with a sentence that says
who can."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from bridge.control.server.audit import audit
from bridge.control.socket import Command
from bridge.peers import commands as peer_commands
from bridge.peers.service import AgentPeers
from federation.peers.audit_trail import AuditTrail
from storage.errors import LocalError

_ROOMS: Final = "`palaver portals` shows the rooms in which agents are"
_QUEUE: Final = "`palaver status` shows how it stands with it"
INSTEAD: Final[Mapping[str, tuple[str, str]]] = {
    "rooms-list": ("keeps the rooms", _ROOMS),
    "rooms-show": ("keeps the rooms", _ROOMS),
    "rooms-state": ("keeps the rooms and their state", _ROOMS),
    "rooms-dag": ("keeps the rooms and their history", _ROOMS),
    "rooms-leave": ("keeps the rooms", "`palaver portals remove` lets agents leave one"),
    "events-show": ("keeps the events", "its administrator can look at one there"),
    "queue": ("speaks with other servers", _QUEUE),
    "peers-retry": ("speaks with other servers", _QUEUE),
    "peers-check": ("speaks with other servers", "`palaver doctor` examines the way there and back"),
}
"""What the homeserver does, and what an operator can use instead."""


def commands(
    homeserver: str, trail: AuditTrail, now_ms: Callable[[], int], peers: AgentPeers
) -> Mapping[str, Command]:
    """By the names that the control socket knows them by. `homeserver` is what it is called."""
    return {
        **{name: partial(_refuse, homeserver, name) for name in INSTEAD},
        "audit": partial(_audit, trail, now_ms),
        **peer_commands.commands(peers, None),
    }


async def _audit(trail: AuditTrail, now_ms: Callable[[], int], given: Mapping[str, Any]) -> Mapping[str, Any]:
    return await audit(trail, now_ms(), given)


async def _refuse(homeserver: str, name: str, given: Mapping[str, Any]) -> NoReturn:
    does, instead = INSTEAD[name]
    raise LocalError(
        f"This node is a guest of {homeserver}, which {does}.", f"{instead[:1].upper()}{instead[1:]}."
    )
