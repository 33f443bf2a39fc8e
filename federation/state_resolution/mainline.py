"""Mainline ordering: all other events, by how far back the power levels are on which they rest."""

from collections.abc import Iterable

from federation.pdu import EventId, Pdu
from federation.state_resolution.events import Events


def mainline_ordering(
    event_ids: Iterable[EventId], power_levels: EventId | None, events: Events
) -> list[EventId]:
    """The mainline ordering based on these power levels: for events *x* and *y*, *x* < *y* if

    1. the mainline position of *x* is **greater** than the mainline position of *y* (i.e. the auth chain of
       *x* is
       based on an earlier event in the mainline than *y*); or
    2. the mainline positions are the same, but *x*'s `origin_server_ts` is *less* than *y*'s; or
    3. the events have the same `origin_server_ts` as well, but *x*'s `event_id` is *less* than *y*'s.
    """
    # Counted from the oldest, so that greater positions come first in ascending order, and ∞, which is
    # before all others, is 0.
    line = _mainline(power_levels, events)
    age = {event_id: index for index, event_id in enumerate(reversed(line), start=1)}
    pdus = [pdu for pdu in map(events.get, event_ids) if pdu is not None]
    pdus.sort(key=lambda pdu: (_position(pdu, age, events), pdu.origin_server_ts, pdu.event_id))
    return [pdu.event_id for pdu in pdus]


def _mainline(power_levels: EventId | None, events: Events) -> list[EventId]:
    """The specification: "Let *P* = *P0* be an `m.room.power_levels` event. Starting with *i* = 0,
    repeatedly fetch *Pi+1*, the `m.room.power_levels` event in the `auth_events` of *Pi*." """
    line = []
    current = None if power_levels is None else events.get(power_levels)
    while current is not None:
        line.append(current.event_id)
        current = events.power_levels_of(current)
    return line


def _position(pdu: Pdu, age: dict[EventId, int], events: Events) -> int:
    """The specification: "Find the smallest index *j* ≥ 1 for which *ej* belongs to the mainline of *P*. If
    such a *j* exists, then *ej* = *Pi* for some unique index *i* ≥ 0. Otherwise set *i* = ∞"."""
    passed = []
    current = events.power_levels_of(pdu)
    while current is not None and current.event_id not in age:
        passed.append(current.event_id)
        current = events.power_levels_of(current)
    position = 0 if current is None else age[current.event_id]
    # Whatever rests on power levels that were passed on the way has the same position; the next one stops
    # there.
    for event_id in passed:
        age[event_id] = position
    return position
