"""`palaver rooms list` and `show`."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.finding import find_room, search
from bridge.service.operator.parts import Parts
from bridge.service.operator.room_power import power
from bridge.service.operator.room_summaries import Summary, summaries
from federation.auth_rules import CREATE
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import creators
from federation.history_visibility import HISTORY_VISIBILITY
from federation.membership_template import ACL
from federation.pdu import Pdu, StateKey
from federation.room_version import ROOM_VERSIONS
from storage.aliases import is_published, list_aliases_of_room
from storage.current_state import count_joined_by_server
from storage.inspection import (
    Joined,
    count_joined,
    count_memberships,
    latest_events,
    members_of_server,
    room_ids_after,
)

PAGE: Final = 50
MOST: Final = 500
LATEST: Final = 10
MOST_SERVERS: Final = 50
MOST_USERS: Final = 50
MOST_EXTREMITIES: Final = 50

_TOMBSTONE: Final[StateKey] = ("m.room.tombstone", "")
_SHOWN: Final = (CREATE, POWER_LEVELS, HISTORY_VISIBILITY, ACL, _TOMBSTONE)
_NOBODY: Final = Joined(0, 0, 0)


async def rooms_list(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """`next` is what `after` must be for the next page, None on the last one."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MOST)
    after = arguments.optional_text("after") or ""
    words = arguments.optional_text("search")
    if words:
        found, on = await search(parts, words, after, limit)
    else:
        async with parts.database.transaction(readonly=True) as connection:
            ids = await room_ids_after(connection, after, limit + 1)
        found = list((await summaries(parts, ids[:limit])).values())
        on = ids[limit - 1] if len(ids) > limit else None
    async with parts.database.transaction(readonly=True) as connection:
        joined = await count_joined(connection, [one.row.room_id for one in found], parts.server_name)
    return {"rooms": [_listed(one, joined.get(one.row.room_id, _NOBODY)) for one in found], "next": on}


def _listed(summary: Summary, joined: Joined) -> dict[str, Any]:
    return {
        "room_id": summary.row.room_id,
        "name": summary.name,
        "canonical_alias": summary.alias,
        "room_version": summary.row.version,
        "room_type": summary.said.get("room_type"),
        "members": joined.members,
        "local_members": joined.own,
        "servers": joined.servers,
        "extremities": len(summary.row.forward_extremities),
    }


async def rooms_show(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    room_id = await find_room(parts, Arguments(given).text("room"))
    summary = (await summaries(parts, [room_id]))[room_id]
    state = await _state(parts, room_id)
    async with parts.database.transaction(readonly=True) as connection:
        joined = (await count_joined(connection, [room_id], parts.server_name)).get(room_id, _NOBODY)
        memberships = await count_memberships(connection, room_id)
        servers = await count_joined_by_server(connection, room_id)
        local = await members_of_server(
            connection, room_id, parts.server_name, ["join", "invite", "knock"], "", MOST_USERS
        )
        aliases = await list_aliases_of_room(connection, room_id)
        published = await is_published(connection, room_id)
        latest = await latest_events(connection, room_id, LATEST)
    return {
        **_listed(summary, joined),
        "topic": summary.said.get("topic"),
        "join_rule": summary.said.get("join_rule"),
        "allowed_room_ids": summary.said.get("allowed_room_ids", []),
        "encryption": summary.said.get("encryption"),
        "aliases_here": aliases,
        "published_here": published,
        **_of_state(summary, state),
        "memberships": memberships,
        "by_server": dict(sorted(servers.items(), key=lambda one: (-one[1], one[0]))[:MOST_SERVERS]),
        "local_users": dict(local),
        "extremity_ids": list(summary.row.forward_extremities[:MOST_EXTREMITIES]),
        "latest_events": await _latest(parts, latest),
    }


async def _state(parts: Parts, room_id: str) -> dict[StateKey, Pdu]:
    """What was redacted is not in it."""
    events = await parts.graph.current_events(room_id, _SHOWN)
    shown = await parts.graph.shown_to_people(list(events.values()))
    return dict(zip(events, shown, strict=True))


def _of_state(summary: Summary, state: Mapping[StateKey, Pdu]) -> dict[str, Any]:
    create, levels, acl = state.get(CREATE), state.get(POWER_LEVELS), state.get(ACL)
    visibility, tombstone = state.get(HISTORY_VISIBILITY), state.get(_TOMBSTONE)
    version = ROOM_VERSIONS[summary.row.version]
    return {
        "creators": sorted(creators(create, version)) if create is not None else [],
        "created_at": create.origin_server_ts if create is not None else None,
        "federates": create is None or create.content.get("m.federate", True) is True,
        "history_visibility": visibility.content.get("history_visibility")
        if visibility is not None
        else None,
        "has_server_acl": acl is not None,
        "replaced_by": tombstone.content.get("replacement_room") if tombstone is not None else None,
        "power_levels": power(levels.content if levels is not None else None, version),
    }


async def _latest(parts: Parts, event_ids: list[str]) -> list[dict[str, Any]]:
    """Who did what when; not what was said, which `palaver events show` shows."""
    events = await parts.graph.events(event_ids)
    return [
        {
            "event_id": event_id,
            "type": event.type,
            "state_key": event.state_key,
            "sender": event.sender,
            "origin_server_ts": event.origin_server_ts,
        }
        for event_id in event_ids
        if (event := events.get(event_id)) is not None
    ]
