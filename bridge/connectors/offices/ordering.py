"""Whether somebody calls a tool by what is said in a room: persons only, and only in words of their own."""

from collections.abc import Callable, Collection
from hashlib import sha256
from typing import Final

from appservice.double_puppets import is_marked
from bridge.address import AgentAddress
from bridge.connectors.offices.call_command import PREFIX, Order, Parsed, behind_prefix
from bridge.connectors.offices.office_name import NoOffice, office_name
from bridge.people.message import MESSAGE, read
from bridge.people.text import is_ours
from federation.room_event import EventHead, RoomEvent

MOST_AGE_MS: Final = 3_600_000


def may_order(event: EventHead, is_of_node: Callable[[str], bool]) -> bool:
    """By what is known of it before it is read. `is_of_node` is true of users of this node."""
    return event.type == MESSAGE and not is_of_node(event.sender)


def order_line(event: RoomEvent, agent_of: Callable[[str], AgentAddress | None]) -> str | None:
    """What stands behind `!call`; None for what is no order. An edit is none, nor is what an agent says, of
    whatever node, or what was said in a person's name."""
    body = event.content.get("body")
    # Most of what is said is none, and need not be looked into.
    if not isinstance(body, str) or PREFIX not in body.lower():
        return None
    if event.is_redacted or is_ours(event.content) or is_marked(event.content):
        return None
    message = read(event.content)
    if message.msgtype != "m.text" or message.replaces is not None or agent_of(event.sender) is not None:
        return None
    return behind_prefix(message.body)


def is_for_this_node(
    parsed: Parsed, office_id: str, here: Collection[str], everywhere: Collection[str]
) -> bool:
    """Of the nodes that share an office one does what is said in its room: the one to which the Computer is
    connected, and whatever is for no such Computer, the one on which the office lives. `here` are the
    Computers of this node, `everywhere` those of all."""
    if isinstance(parsed, Order) and parsed.computer in everywhere:
        return parsed.computer in here
    name = office_name(office_id, ())
    return isinstance(name, NoOffice) or name.server is None


def is_too_old(event: RoomEvent, now_ms: int) -> bool:
    """What came late, or once more, may have been forgotten by whoever said it."""
    return event.origin_server_ts < now_ms - MOST_AGE_MS


def call_id_of(event_id: str) -> str:
    """Of a message: read again, it is the same call."""
    return f"said-{sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()[:24]}"
