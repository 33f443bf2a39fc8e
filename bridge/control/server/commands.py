"""The operator's commands about rooms and other servers, served on the control socket.

A command takes JSON arguments and returns JSON. Every answer is bounded to what a person can read.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.control.server.audit import audit
from bridge.control.server.events import events_show, rooms_dag
from bridge.control.server.peers import peers_check, peers_list, peers_retry, queue
from bridge.control.server.rooms import rooms_leave, rooms_list, rooms_show, rooms_state
from bridge.control.socket import Command
from federation.homeserver import Homeserver


async def _audit(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    return await audit(homeserver.audit, homeserver.now_ms(), given)


COMMANDS: Final = {
    "peers-list": peers_list,
    "peers-check": peers_check,
    "peers-retry": peers_retry,
    "queue": queue,
    "rooms-list": rooms_list,
    "rooms-show": rooms_show,
    "rooms-state": rooms_state,
    "rooms-dag": rooms_dag,
    "rooms-leave": rooms_leave,
    "events-show": events_show,
    "audit": _audit,
}


def commands(homeserver: Homeserver) -> Mapping[str, Command]:
    """Return the commands by their names on the control socket."""
    return {name: partial(command, homeserver) for name, command in COMMANDS.items()}
