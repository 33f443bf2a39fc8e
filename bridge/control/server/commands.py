"""What an operator asks a running node about rooms and other servers, and has it do.

Each command takes what the command line sends through the control socket and gives what that shows: JSON, and
never more of it than a person reads.
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
    """By the names that the control socket knows them by."""
    return {name: partial(command, homeserver) for name, command in COMMANDS.items()}
