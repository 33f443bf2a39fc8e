"""The operator commands of a node that is an application service. Commands that only a homeserver can execute
are refused with advice."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NoReturn

from bridge.control.server.audit import audit
from bridge.control.socket import Command
from bridge.peers import commands as peer_commands
from bridge.peers.service import AgentPeers
from federation.peers.audit_trail import AuditTrail
from storage.errors import LocalError

_ROOMS: Final = "`palaver portals` shows the rooms that agents have joined"
_QUEUE: Final = "`palaver status` shows the connection to the homeserver"
UNAVAILABLE: Final[Mapping[str, tuple[str, str]]] = {
    "rooms-list": ("stores the rooms", _ROOMS),
    "rooms-show": ("stores the rooms", _ROOMS),
    "rooms-state": ("stores the rooms and their state", _ROOMS),
    "rooms-dag": ("stores the rooms and their history", _ROOMS),
    "rooms-leave": ("stores the rooms", "`palaver portals remove` removes agents from a room"),
    "events-show": ("stores the events", "the homeserver's administrator can show an event"),
    "queue": ("sends to other servers", _QUEUE),
    "peers-retry": ("sends to other servers", _QUEUE),
    "peers-check": (
        "connects to other servers",
        "`palaver doctor` checks the connection to the homeserver in both directions",
    ),
}
"""Commands that an application service does not have: what the homeserver does, and what to use instead."""


def commands(homeserver: str, trail: AuditTrail, now_ms: Callable[[], int], peers: AgentPeers) -> Mapping[str, Command]:
    """Return the commands by their names on the control socket. `homeserver` is the homeserver's name."""
    return {
        **{name: partial(_refuse, homeserver, name) for name in UNAVAILABLE},
        "audit": partial(_audit, trail, now_ms),
        **peer_commands.commands(peers, None),
    }


async def _audit(trail: AuditTrail, now_ms: Callable[[], int], given: Mapping[str, Any]) -> Mapping[str, Any]:
    return await audit(trail, now_ms(), given)


async def _refuse(homeserver: str, name: str, given: Mapping[str, Any]) -> NoReturn:
    does, instead = UNAVAILABLE[name]
    raise LocalError(
        f"This node is an application service of {homeserver}, which {does}.", f"{instead[:1].upper()}{instead[1:]}."
    )
