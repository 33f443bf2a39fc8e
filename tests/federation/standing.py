"""Rooms of `tests.support.rooms` as a participating server sees them."""

from typing import Any

from federation.events import Pdu
from federation.memberships.membership_event import MembershipChange
from tests.support.rooms import ALICE, BOB, Room

NOW = 50_000
OTHER_ROOM = "!condition:a.example"
VERSIONS = ("10", "11", "12")


def offered(change: MembershipChange, room: Room) -> dict[str, Any]:
    """Return the response of a resident server to `make_*`: the event itself, already signed and not
    checked against the auth rules."""
    event = room.propose("m.room.member", change.user, {**change.content, "membership": change.membership}, change.user)
    template = {key: value for key, value in event.event.items() if key not in {"hashes", "signatures"}}
    return {"room_version": room.version.id, "event": template}


def restricted_room(version: str, *conditions: str, rule: str = "restricted", invite: int = 0) -> Room:
    """Alice's room, which members of other rooms may join."""
    room = Room(version)
    room.join(ALICE)
    users = {} if room.version.creators_have_infinite_power else {ALICE: 100}
    room.power_levels(ALICE, {"users": users, "invite": invite})
    allow = [{"type": "m.room_membership", "room_id": condition} for condition in conditions]
    room.send("m.room.join_rules", ALICE, {"join_rule": rule, "allow": allow}, "")
    return room


def chain_of(room: Room, *pdus: Pdu) -> list[Pdu]:
    """Return the auth chain of events; from room version 12 on the create event is referenced by the room
    id."""
    found: dict[str, Pdu] = {}
    waiting = [event_id for pdu in pdus for event_id in pdu.auth_events]
    while waiting:
        event_id = waiting.pop()
        if event_id not in found:
            found[event_id] = room.events[event_id]
            waiting += room.events[event_id].auth_events
    return list(found.values())


def denying(room: Room, server: str = "b.example") -> Room:
    room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": [server]}, "")
    return room


def invited(version: str, user: str = BOB, **content: Any) -> Room:
    """Alice's room with an invited user."""
    room = Room(version)
    room.join(ALICE)
    room.member(ALICE, user, "invite", content=content)
    return room
