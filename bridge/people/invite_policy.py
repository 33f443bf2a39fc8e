"""Decides about invites of this node's users, and about people who join or knock on agents' rooms."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from bridge.agents.address import AgentAddress
from bridge.people.message import MEMBER
from bridge.people.permissions import Level, Rights
from federation.events.room_event import StreamedEvent


@dataclass(frozen=True, slots=True)
class Accept:
    """Accept the invite of a local user."""

    user: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Reject the invite of a local user. The inviting person can read the reason."""

    user: str
    reason: str


@dataclass(frozen=True, slots=True)
class Invite:
    """Invite a user who has knocked."""

    user: str


@dataclass(frozen=True, slots=True)
class Kick:
    """Kick a user, or reject a knock."""

    user: str
    reason: str


MembershipAction: TypeAlias = Accept | Refuse | Invite | Kick


@dataclass(frozen=True, slots=True)
class InvitePolicy:
    """What the decision needs. Invites to rooms for which `is_foreign` is true are handled by a connector."""

    node_user: str
    is_local: Callable[[str], bool]
    agent_of: Callable[[str], AgentAddress | None]
    is_agents_room: Callable[[str], bool]
    is_foreign: Callable[[str], bool]
    rights: Rights


def decide(entry: StreamedEvent, policy: InvitePolicy) -> MembershipAction | None:
    """Return the reaction to a membership event, or None if there is none."""
    event = entry.event
    if event.type != MEMBER or event.state_key is None or entry.kind not in {"timeline", "invite"}:
        return None
    membership, user = event.content.get("membership"), event.state_key
    if membership == "invite" and policy.is_local(user):
        return _invited(entry, user, policy)
    if entry.kind == "invite" or not policy.is_agents_room(event.room_id) or policy.is_local(user):
        return None
    refusal = policy.rights.of(user).refusal(Level.LOOK)
    match membership:
        case "knock":
            return Invite(user) if refusal is None else Kick(user, refusal)
        case "join":
            return None if refusal is None else Kick(user, refusal)
    return None


def _invited(entry: StreamedEvent, user: str, policy: InvitePolicy) -> MembershipAction | None:
    event = entry.event
    if policy.is_local(event.sender) or policy.is_foreign(event.room_id) or _has_type(entry):
        return None
    if user == policy.node_user:
        needed = Level.LOOK
    elif policy.agent_of(user) is not None:
        needed = Level.WORK
    else:
        return None
    refusal = policy.rights.of(event.sender).refusal(needed)
    return Accept(user) if refusal is None else Refuse(user, refusal)


def _has_type(entry: StreamedEvent) -> bool:
    """A room with a type, like a space, is for software that knows the type."""
    for stripped in entry.invite_state:
        content = stripped.get("content")
        if stripped.get("type") == "m.room.create" and isinstance(content, dict) and content.get("type"):
            return True
    return False
