"""`palaver rooms list`, `show`, `state` and `leave`."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.control.server.arguments import Arguments, describe_error
from bridge.control.server.lookup import Summary, find_room, search, summaries
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import creators, read_level
from federation.events import CREATE, Pdu, StateKey
from federation.homeserver import Homeserver
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_room_id
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion
from federation.rooms.read import HISTORY_VISIBILITY
from federation.rooms.server_acl import ACL
from storage.errors import LocalError
from storage.rooms.aliases import is_published, list_aliases_of_room
from storage.rooms.inspection import (
    JoinedCounts,
    count_joined,
    count_memberships,
    list_latest_events,
    list_members_of_server,
    list_outside_members,
    list_room_ids,
)
from storage.rooms.outside_memberships import fetch_membership
from storage.rooms.rooms import count_joined_by_server

MAX_POWER_USERS: Final = 20
# With the specification's default for each.
_LEVELS: Final = (
    ("users_default", 0),
    ("events_default", 0),
    ("state_default", 50),
    ("invite", 0),
    ("kick", 50),
    ("ban", 50),
    ("redact", 50),
)


def power(content: Mapping[str, Any] | None, version: RoomVersion) -> dict[str, Any]:
    """Return the power levels of a room. `users` are the users with the highest levels in the event. Without
    an event the creator has level 100. From room version 12 on, creators are not in the event and have an
    unlimited level."""
    fields = content if content is not None else {}
    users = fields.get("users")
    levels = {
        user: level
        for user, value in (users.items() if isinstance(users, dict) else ())
        if (level := read_level(value, version)) is not None
    }
    highest = sorted(levels.items(), key=lambda item: (-item[1], item[0]))[:MAX_POWER_USERS]
    return {
        "is_set": content is not None,
        "users": dict(highest),
        "users_left_out": len(levels) - len(highest),
        **{name: _level(fields.get(name), default, version) for name, default in _LEVELS},
    }


def _level(value: Any, default: int, version: RoomVersion) -> int:
    level = read_level(value, version)
    return default if level is None else level


PAGE: Final = 50
MAX_PAGE: Final = 500
LATEST: Final = 10
MAX_SERVERS: Final = 50
MAX_USERS: Final = 50
MAX_EXTREMITIES: Final = 50

_TOMBSTONE: Final[StateKey] = ("m.room.tombstone", "")
_SHOWN: Final = (CREATE, POWER_LEVELS, HISTORY_VISIBILITY, ACL, _TOMBSTONE)
_NO_MEMBERS: Final = JoinedCounts(0, 0, 0)


async def rooms_list(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """List rooms by id. `next` is the `after` of the next page, None on the last page."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MAX_PAGE)
    after = arguments.optional_text("after") or ""
    words = arguments.optional_text("search")
    if words:
        found, next_after = await search(homeserver, words, after, limit)
    else:
        async with homeserver.database.transaction(readonly=True) as connection:
            ids = await list_room_ids(connection, after, limit + 1)
        found = list((await summaries(homeserver, ids[:limit])).values())
        next_after = ids[limit - 1] if len(ids) > limit else None
    room_ids = [summary.row.room_id for summary in found]
    async with homeserver.database.transaction(readonly=True) as connection:
        joined = await count_joined(connection, room_ids, homeserver.server_name)
    rooms = [_listed(summary, joined.get(summary.row.room_id, _NO_MEMBERS)) for summary in found]
    return {"rooms": rooms, "next": next_after}


def _listed(summary: Summary, joined: JoinedCounts) -> dict[str, Any]:
    return {
        "room_id": summary.row.room_id,
        "name": summary.name,
        "canonical_alias": summary.alias,
        "room_version": summary.row.version,
        "room_type": summary.fields.get("room_type"),
        "members": joined.members,
        "local_members": joined.local,
        "servers": joined.servers,
        "extremities": len(summary.row.forward_extremities),
    }


async def rooms_show(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    room_id = await find_room(homeserver, Arguments(given).text("room"))
    summary = (await summaries(homeserver, [room_id]))[room_id]
    state = await _state(homeserver, room_id)
    async with homeserver.database.transaction(readonly=True) as connection:
        joined = (await count_joined(connection, [room_id], homeserver.server_name)).get(room_id, _NO_MEMBERS)
        memberships = await count_memberships(connection, room_id)
        servers = await count_joined_by_server(connection, room_id)
        local = await list_members_of_server(
            connection, room_id, homeserver.server_name, ["join", "invite", "knock"], "", MAX_USERS
        )
        aliases = await list_aliases_of_room(connection, room_id)
        published = await is_published(connection, room_id)
        latest = await list_latest_events(connection, room_id, LATEST)
    return {
        **_listed(summary, joined),
        "topic": summary.fields.get("topic"),
        "join_rule": summary.fields.get("join_rule"),
        "allowed_room_ids": summary.fields.get("allowed_room_ids", []),
        "encryption": summary.fields.get("encryption"),
        "aliases_here": aliases,
        "published_here": published,
        **_of_state(summary, state),
        "memberships": memberships,
        "by_server": dict(sorted(servers.items(), key=lambda item: (-item[1], item[0]))[:MAX_SERVERS]),
        "local_users": dict(local),
        "extremity_ids": list(summary.row.forward_extremities[:MAX_EXTREMITIES]),
        "latest_events": await _latest(homeserver, latest),
    }


async def _state(homeserver: Homeserver, room_id: str) -> dict[StateKey, Pdu]:
    """Fetch the state that is shown, without redacted content."""
    events = await homeserver.graph.current_events(room_id, _SHOWN)
    shown = await homeserver.graph.apply_redactions(list(events.values()))
    return dict(zip(events, shown, strict=True))


def _of_state(summary: Summary, state: Mapping[StateKey, Pdu]) -> dict[str, Any]:
    create, levels, acl = state.get(CREATE), state.get(POWER_LEVELS), state.get(ACL)
    visibility, tombstone = state.get(HISTORY_VISIBILITY), state.get(_TOMBSTONE)
    version = ROOM_VERSIONS[summary.row.version]
    return {
        "creators": sorted(creators(create, version)) if create is not None else [],
        "created_at": create.origin_server_ts if create is not None else None,
        "federates": create is None or create.content.get("m.federate", True) is True,
        "history_visibility": visibility.content.get("history_visibility") if visibility is not None else None,
        "has_server_acl": acl is not None,
        "replaced_by": tombstone.content.get("replacement_room") if tombstone is not None else None,
        "power_levels": power(levels.content if levels is not None else None, version),
    }


async def _latest(homeserver: Homeserver, event_ids: list[str]) -> list[dict[str, Any]]:
    """The events without their content, which `palaver events show` shows."""
    events = await homeserver.graph.events(event_ids)
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


STATE_PAGE: Final = 100
MAX_ENTRIES: Final = 1_000
MAX_STATE_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of event contents in one answer."""


async def rooms_state(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the current state, sorted by type and state key. If a type is given, the entries have their
    content; of redacted events only what remains after the redaction."""
    arguments = Arguments(given)
    room_id = await find_room(homeserver, arguments.text("room"))
    type_, key = arguments.optional_text("type"), arguments.optional_text("key")
    limit = arguments.number("limit", STATE_PAGE, MAX_ENTRIES)
    state = await homeserver.graph.current_state(room_id)
    chosen = sorted(entry for entry in state if type_ in (None, entry[0]) and (key is None or entry[1] == key))
    if not chosen:
        raise _not_found(state, type_, key)
    ids = {entry: state[entry] for entry in chosen[:limit]}
    events = await homeserver.graph.events(ids.values())
    shown = {pdu.event_id: pdu for pdu in await homeserver.graph.apply_redactions(list(events.values()))}
    budget = MAX_STATE_BYTES if type_ is not None else 0
    entries = []
    for entry, event_id in ids.items():
        pdu = shown[event_id]
        budget -= len(pdu.canonical)
        entries.append(_entry(entry, pdu, with_content=budget >= 0))
    return {"room_id": room_id, "entries": entries, "total": len(chosen)}


def _entry(entry: StateKey, pdu: Pdu, *, with_content: bool) -> dict[str, Any]:
    fields = {
        "type": entry[0],
        "state_key": entry[1],
        "event_id": pdu.event_id,
        "sender": pdu.sender,
        "origin_server_ts": pdu.origin_server_ts,
    }
    return {**fields, "content": pdu.content} if with_content else fields


def _not_found(state: Mapping[StateKey, str], type_: str | None, key: str | None) -> LocalError:
    keys = sorted(entry[1] for entry in state if entry[0] == type_)
    if keys and key is not None:
        return LocalError(
            f"The state has no {type_} with the state key {key!r}.",
            f"It has {len(keys)} with other state keys: omit the state key to list them.",
        )
    return LocalError(f"The state has no {type_}.", "Omit the type to list all types.")


MAX_AT_ONCE: Final = 20
"""Maximum users in one call: rejecting an invite waits for another server, which may be slow."""
MEMBERSHIPS: Final = ("join", "invite", "knock")


async def rooms_leave(homeserver: Homeserver, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Make a batch of users leave a room, in the order of their ids. `next` is the `after` of the next batch.
    With `look` the users are only listed. A user who cannot leave does not stop the others."""
    arguments = Arguments(given)
    room_id = await _room(homeserver, arguments.text("room"))
    user = arguments.optional_text("user")
    if user is not None:
        leaving = [(user, await _membership(homeserver, room_id, user))]
    else:
        leaving = await _members(homeserver, room_id, arguments.optional_text("after") or "")
    now = leaving[:MAX_AT_ONCE]
    problems: dict[str, str | None] = {}
    if not arguments.flag("look"):
        problems = {user_id: await _leave(homeserver, room_id, user_id) for user_id, _ in now}
    return {
        "room_id": room_id,
        "users": [
            {"user_id": user_id, "membership": membership, "problem": problems.get(user_id)}
            for user_id, membership in now
        ],
        "next": now[-1][0] if len(leaving) > len(now) else None,
    }


async def _room(homeserver: Homeserver, text: str) -> str:
    """Find the room. An invite may be for a room that this node has not joined and knows only by its id."""
    if is_room_id(text) and await homeserver.graph.room(text) is None:
        async with homeserver.database.transaction(readonly=True) as connection:
            if await list_outside_members(connection, text, "", 1):
                return text
    return await find_room(homeserver, text)


async def _members(homeserver: Homeserver, room_id: str, after: str) -> list[tuple[str, str]]:
    """Fetch the users of the next batch, and one more if there are more."""
    most = MAX_AT_ONCE + 1
    async with homeserver.database.transaction(readonly=True) as connection:
        here = await list_members_of_server(connection, room_id, homeserver.server_name, MEMBERSHIPS, after, most)
        outside = await list_outside_members(connection, room_id, after, most)
    return sorted({**dict(outside), **dict(here)}.items())


async def _membership(homeserver: Homeserver, room_id: str, user: str) -> str:
    if domain(user) != homeserver.server_name:
        raise LocalError(
            f"{user} is not a user of {homeserver.server_name}.",
            "This command works only for users of this server. Users of other servers can be kicked in the room.",
        )
    key = ("m.room.member", user)
    event = (await homeserver.graph.current_events(room_id, [key])).get(key)
    if event is not None and event.membership in MEMBERSHIPS:
        return str(event.membership)
    async with homeserver.database.transaction(readonly=True) as connection:
        outside = await fetch_membership(connection, room_id, user)
    if outside is None:
        raise LocalError(f"{user} is not in {room_id}.", "`palaver rooms show` lists this server's users in the room.")
    return outside.membership


async def _leave(homeserver: Homeserver, room_id: str, user: str) -> str | None:
    """Make the user leave, and return the error if that fails."""
    try:
        await homeserver.membership.leave(room_id, user)
    except (MatrixError, PeerError) as error:
        return describe_error(error)
    return None
