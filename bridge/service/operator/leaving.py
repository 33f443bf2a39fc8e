"""`palaver rooms leave`: this server's users leave a room."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.finding import find_room
from bridge.service.operator.parts import Parts
from bridge.service.operator.refusals import sentence
from federation.errors import MatrixError, PeerError
from federation.identifiers import domain, is_room_id
from storage.errors import LocalError
from storage.inspection import members_of_server, outside_members
from storage.outside_memberships import fetch_membership

MOST_AT_ONCE: Final = 20
"""Users in one call: when an invited one leaves, another server may take its time."""
MEMBERSHIPS: Final = ("join", "invite", "knock")


async def rooms_leave(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Some of those who are to leave, in the order of their ids. `next` is what `after` must be to go on;
    with `look`, nobody leaves. One who cannot leave keeps no other from it."""
    arguments = Arguments(given)
    room_id = await _room(parts, arguments.text("room"))
    user = arguments.optional_text("user")
    if user is not None:
        leaving = [(user, await _membership(parts, room_id, user))]
    else:
        leaving = await _members(parts, room_id, arguments.optional_text("after") or "")
    now = leaving[:MOST_AT_ONCE]
    problems: dict[str, str | None] = {}
    if not arguments.flag("look"):
        problems = {user_id: await _leave(parts, room_id, user_id) for user_id, _ in now}
    return {
        "room_id": room_id,
        "users": [
            {"user_id": user_id, "membership": membership, "problem": problems.get(user_id)}
            for user_id, membership in now
        ],
        "next": now[-1][0] if len(leaving) > len(now) else None,
    }


async def _room(parts: Parts, text: str) -> str:
    """An invite may lead into a room that this node is not in, and that it knows by its id alone."""
    if is_room_id(text) and await parts.graph.room(text) is None:
        async with parts.database.transaction(readonly=True) as connection:
            if await outside_members(connection, text, "", 1):
                return text
    return await find_room(parts, text)


async def _members(parts: Parts, room_id: str, after: str) -> list[tuple[str, str]]:
    """One more than are to leave now, if there are more."""
    most = MOST_AT_ONCE + 1
    async with parts.database.transaction(readonly=True) as connection:
        here = await members_of_server(connection, room_id, parts.server_name, MEMBERSHIPS, after, most)
        outside = await outside_members(connection, room_id, after, most)
    return sorted({**dict(outside), **dict(here)}.items())


async def _membership(parts: Parts, room_id: str, user: str) -> str:
    if domain(user) != parts.server_name:
        raise LocalError(
            f"{user} is not a user of {parts.server_name}.",
            "Only its own users leave by its word; somebody with power in the room can kick others.",
        )
    key = ("m.room.member", user)
    event = (await parts.graph.current_events(room_id, [key])).get(key)
    if event is not None and event.membership in MEMBERSHIPS:
        return str(event.membership)
    async with parts.database.transaction(readonly=True) as connection:
        outside = await fetch_membership(connection, room_id, user)
    if outside is None:
        raise LocalError(
            f"{user} is not in {room_id}.", "`palaver rooms show` names this server's users in it."
        )
    return outside.membership


async def _leave(parts: Parts, room_id: str, user: str) -> str | None:
    """What kept the user from leaving."""
    try:
        await parts.membership.leave(room_id, user)
    except (MatrixError, PeerError) as error:
        return sentence(error)
    return None
