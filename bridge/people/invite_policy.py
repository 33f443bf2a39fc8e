"""Who comes into which room: invites for agents, and people who come into rooms of agents."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bridge.agents.address import AgentAddress
from bridge.people.message import MEMBER
from bridge.people.permissions import Level, Rights
from federation.events.room_event import StreamedEvent


@dataclass(frozen=True, slots=True)
class Accept:
    """An invite of a user of ours."""

    user: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """The reason is read by whoever invited."""

    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class LetIn:
    """Somebody has knocked."""

    user: str


@dataclass(frozen=True, slots=True)
class ShowOut:
    user: str
    reason: str


Act: TypeAlias = Accept | Refuse | LetIn | ShowOut


@dataclass(frozen=True, slots=True)
class Door:
    """`is_foreign` is true of rooms that are another part's business: invites into those are left to it."""

    node_user: str
    is_ours: Callable[[str], bool]
    agent_of: Callable[[str], AgentAddress | None]
    is_own_room: Callable[[str], bool]
    is_foreign: Callable[[str], bool]
    rights: Rights


def decide(entry: StreamedEvent, door: Door) -> Act | None:
    event = entry.event
    if event.type != MEMBER or event.state_key is None or entry.kind not in {"timeline", "invite"}:
        return None
    membership, user = event.content.get("membership"), event.state_key
    if membership == "invite" and door.is_ours(user):
        return _invited(entry, user, door)
    if entry.kind == "invite" or not door.is_own_room(event.room_id) or door.is_ours(user):
        return None
    refusal = door.rights.of(user).refusal(Level.LOOK)
    match membership:
        case "knock":
            return LetIn(user) if refusal is None else ShowOut(user, refusal)
        case "join":
            return None if refusal is None else ShowOut(user, refusal)
    return None


def _invited(entry: StreamedEvent, user: str, door: Door) -> Act | None:
    event = entry.event
    if door.is_ours(event.sender) or door.is_foreign(event.room_id) or _has_type(entry):
        return None
    if user == door.node_user:
        needed = Level.LOOK
    elif door.agent_of(user) is not None:
        needed = Level.WORK
    else:
        return None
    refusal = door.rights.of(event.sender).refusal(needed)
    return Accept(user) if refusal is None else Refuse(user, refusal)


def _has_type(entry: StreamedEvent) -> bool:
    """A room of a type is for those who know that type."""
    for stripped in entry.invite_state:
        content = stripped.get("content")
        if stripped.get("type") == "m.room.create" and isinstance(content, dict) and content.get("type"):
            return True
    return False
