"""Iterative auth checks: replaying events one by one, each against what those before it have left."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from federation.auth_rules import CREATE, Refused, check, state_needed
from federation.pdu import EventId, Pdu, StateKey
from federation.state_resolution.events import Events


@dataclass(slots=True)
class Replay:
    """A state in the making, and what the rules kept out of it."""

    state: dict[StateKey, EventId]
    refused: dict[EventId, Refused] = field(default_factory=dict)


def replay(event_ids: Iterable[EventId], into: Replay, rejected: Container[EventId], events: Events) -> None:
    """The specification: "The *iterative auth checks algorithm* takes as input an initial room state and a
    sorted list of state events, and constructs a new room state by iterating through the event list and
    applying the state event to the room state if the state event is allowed by the authorization rules. If
    the state event is not allowed by the authorization rules, then the event is ignored."""
    for event_id in event_ids:
        pdu = events.get(event_id)
        # An event that was rejected when it came stays rejected for good, as in Synapse.
        if pdu is None or pdu.key is None or event_id in rejected:
            continue
        verdict = check(pdu, _auth_state(pdu, into.state, rejected, events), events.version)
        if isinstance(verdict, Refused):
            into.refused[event_id] = verdict
        else:
            into.state[pdu.key] = event_id


def _auth_state(
    pdu: Pdu, state: Mapping[StateKey, EventId], rejected: Container[EventId], events: Events
) -> dict[StateKey, Pdu]:
    """The specification: "If a `(event_type, state_key)` key that is required for checking the
    authorization rules is not present in the state, then the appropriate state event from the event's
    `auth_events` is used if the auth event is not rejected."
    """
    auth_state: dict[StateKey, Pdu] = {}
    for auth_event in pdu.auth_events:
        entry = events.get(auth_event)
        if entry is not None and entry.key is not None and auth_event not in rejected:
            auth_state[entry.key] = entry
    if events.version.create_event_is_room_id:
        # Version 12: no event names the create event; its room id does.
        create = events.create_of(pdu)
        if create is not None and create.event_id not in rejected:
            auth_state[CREATE] = create
    for key in state_needed(pdu, events.version):
        resolved = state.get(key)
        if resolved is not None and resolved not in rejected:
            entry = events.get(resolved)
            if entry is not None:
                auth_state[key] = entry
    return auth_state
