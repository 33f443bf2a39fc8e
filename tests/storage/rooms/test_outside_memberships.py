"""Invites and knocks for rooms without local members."""

from typing import Any

from storage.database import Database
from storage.rooms.outside_memberships import (
    OutsideMembership,
    delete_membership,
    fetch_by_events,
    fetch_membership,
    insert_invite,
    list_memberships_of_user,
    write_membership,
)
from storage.rooms.stream import read

ROOM, USER = "!room:b.example", "@alice:a.example"


def invite(**change: Any) -> OutsideMembership:
    row = OutsideMembership(
        ROOM, USER, "invite", "12", "$1", "@bob:b.example", "b.example", b"{}", b'[{"nul":"\\u0000"}]', 5
    )
    return row._replace(**change)


async def test_the_newest_invite_counts(database: Database) -> None:
    """It is stored unchanged, including NUL, until it is answered or retracted."""
    async with database.transaction() as connection:
        assert await fetch_membership(connection, ROOM, USER) is None
        await write_membership(connection, invite())
        await write_membership(connection, invite(event_id="$2", sender="@carol:b.example", received_at=9))
        newest = invite(event_id="$2", sender="@carol:b.example", received_at=9)
        assert await fetch_membership(connection, ROOM, USER) == newest
        assert await delete_membership(connection, ROOM, USER)
        assert not await delete_membership(connection, ROOM, USER)


async def test_an_older_knock_does_not_overwrite_the_invite_that_answers_it(database: Database) -> None:
    """The invite may be written before the knock."""
    async with database.transaction() as connection:
        await write_membership(connection, invite(received_at=9))
        await write_membership(connection, invite(membership="knock", event_id="$k", received_at=8))
        assert await fetch_membership(connection, ROOM, USER) == invite(received_at=9)


async def test_all_memberships_of_a_user_are_listed(database: Database) -> None:
    """Oldest first, including knocks."""
    async with database.transaction() as connection:
        newer = invite(room_id="!a:b.example", membership="knock", received_at=7)
        for row in (newer, invite(), invite(user_id="@other:a.example")):
            await write_membership(connection, row)
        assert await list_memberships_of_user(connection, USER) == [invite(), newer]


async def test_an_invite_is_appended_to_the_stream_once(database: Database) -> None:
    """However often it is sent; another invite replaces it and has its own position. It is found by its event
    while it is pending."""
    async with database.transaction() as connection:
        assert await insert_invite(connection, invite())
    async with database.transaction() as connection:
        assert not await insert_invite(connection, invite(received_at=9))
    async with database.transaction() as connection:
        assert await insert_invite(connection, invite(event_id="$2"))
    async with database.connection() as connection:
        rows = await read(connection, 0, 10)
        assert [(row.room_id, row.event_id, row.kind) for row in rows] == [
            (ROOM, "$1", "invite"),
            (ROOM, "$2", "invite"),
        ]
        found = await fetch_by_events(connection, [(ROOM, "$1"), (ROOM, "$2")])
        assert found == {"$2": invite(event_id="$2")}
