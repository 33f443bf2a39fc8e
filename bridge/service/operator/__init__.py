"""What an operator asks a running node about rooms and other servers, and has it do.

Each command takes what the command line sends through the control socket and gives what that shows: JSON, and
never more of it than a person reads.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from bridge.service.control_socket import Command
from bridge.service.operator.audit import audit
from bridge.service.operator.events import events_show
from bridge.service.operator.leaving import rooms_leave
from bridge.service.operator.parts import Parts
from bridge.service.operator.peer_check import peers_check
from bridge.service.operator.peers import peers_list, peers_retry
from bridge.service.operator.queue import queue
from bridge.service.operator.room_dag import rooms_dag
from bridge.service.operator.room_state import rooms_state
from bridge.service.operator.rooms import rooms_list, rooms_show

__all__ = ["COMMANDS", "Parts", "commands"]

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
    "audit": audit,
}


def commands(homeserver: Parts) -> Mapping[str, Command]:
    """By the names that the control socket knows them by."""
    return {name: partial(command, homeserver) for name, command in COMMANDS.items()}
