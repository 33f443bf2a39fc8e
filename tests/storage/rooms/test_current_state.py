"""The current state as a table."""

from storage.database import Database
from storage.rooms.rooms import (
    CurrentStateRow,
    Member,
    count_joined_by_server,
    fetch_entries,
    fetch_entries_of_rooms,
    fetch_members,
    fetch_rooms_of_server,
    fetch_rooms_of_user,
    fetch_rooms_of_users,
    has_member_of_server,
    write_current_state,
)


def member(room: str, user: str, membership: str, event_id: str = "$m") -> CurrentStateRow:
    return CurrentStateRow(room, "m.room.member", user, event_id, membership, user.partition(":")[2])


async def test_members_are_found_by_room_user_and_server(database: Database) -> None:
    """The most frequent queries."""
    async with database.transaction() as connection:
        await write_current_state(
            connection,
            [
                member("!a", "@x:one", "join"),
                member("!a", "@y:one", "join"),
                member("!a", "@z:two", "invite", "$z"),
                member("!b", "@x:one", "leave"),
                member("!c", "@x:one", "join"),
                CurrentStateRow("!a", "m.room.topic", "", "$t", None, None),
            ],
        )
        assert await fetch_members(connection, "!a", ["invite", "ban"]) == [Member("@z:two", "invite", "$z")]
        assert [one.user_id for one in await fetch_members(connection, "!a")] == ["@x:one", "@y:one"]
        assert await fetch_rooms_of_user(connection, "@x:one") == ["!a", "!c"]
        assert await fetch_rooms_of_user(connection, "@x:one", ["leave"]) == ["!b"]
        assert await count_joined_by_server(connection, "!a") == {"one": 2}
        assert await fetch_rooms_of_server(connection, "one") == ["!a", "!c"]
        assert await fetch_rooms_of_server(connection, "two") == []
        assert await has_member_of_server(connection, "!a", "two", ["join", "invite"])
        assert not await has_member_of_server(connection, "!a", "two", ["join"])
        assert not await has_member_of_server(connection, "!b", "two", ["join", "invite"])
        assert await fetch_entries(connection, "!a", "m.room.topic") == {"": "$t"}
        assert await fetch_entries(connection, "!a", "m.room.member", ["@z:two", "@w:w"]) == {"@z:two": "$z"}


async def test_entries_are_replaced_and_removed(database: Database) -> None:
    """Removals come first, so that a removed key can be set again in one call."""
    async with database.transaction() as connection:
        await write_current_state(connection, [member("!a", "@x:one", "join"), member("!a", "@y:one", "join")])
        await write_current_state(
            connection,
            [member("!a", "@x:one", "ban", "$b")],
            [("!a", "m.room.member", "@y:one"), ("!a", "m.room.member", "@x:one"), ("!b", "t", "")],
        )
        await write_current_state(connection, [])
        entries = await fetch_entries(connection, "!a", "m.room.member")
    assert entries == {"@x:one": "$b"}


async def test_queries_across_rooms(database: Database) -> None:
    """The rooms of users, and one state entry of several rooms."""
    async with database.transaction() as connection:
        await write_current_state(
            connection,
            [
                CurrentStateRow("!a", "m.room.member", "@x:a", "$1", "join", "a"),
                CurrentStateRow("!b", "m.room.member", "@x:a", "$2", "join", "a"),
                CurrentStateRow("!b", "m.room.member", "@y:a", "$3", "leave", "a"),
                CurrentStateRow("!a", "m.space.child", "!b", "$4", None, None),
                CurrentStateRow("!b", "m.space.child", "!b", "$5", None, None),
            ],
        )
        assert await fetch_rooms_of_users(connection, ["@x:a", "@y:a"]) == {"@x:a": ["!a", "!b"]}
        assert await fetch_entries_of_rooms(connection, ["!a", "!c"], "m.space.child", "!b") == {"!a": "$4"}
