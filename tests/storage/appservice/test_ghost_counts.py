"""The number of ghosts and of their rooms."""

from storage.appservice.rooms import GhostCounts, count_ghosts_and_rooms, list_ghosts, list_rooms
from storage.database import Database
from storage.federation.users import insert_user

ENTRY = """
INSERT INTO guest_state (
    room_id, type, state_key, event_id, sender, ts, content, is_redacted, membership, is_ours,
    known_by, change
)
VALUES ($1, 'm.room.member', convert_to($2, 'UTF8'), '', $2, 1, '{}', false, $3, $4, 'told', 1)
"""


async def test_only_rooms_with_a_joined_ghost_count(database: Database) -> None:
    """Invited ghosts and ghosts that have left do not count, nor do other users."""
    async with database.transaction() as connection:
        assert await count_ghosts_and_rooms(connection) == GhostCounts(0, 0)
        for user in ("@_agent_a:their.server", "@_agent_b:their.server"):
            await insert_user(connection, user, 1)
        for room_id in ("!one:a", "!three:a", "!two:a"):
            await connection.execute("INSERT INTO guest_rooms (room_id) VALUES ($1)", room_id)
        for room_id, user, membership, is_ours in (
            ("!one:a", "@_agent_a:their.server", "join", True),
            ("!one:a", "@_agent_b:their.server", "join", True),
            ("!one:a", "@alice:their.server", "join", False),
            ("!three:a", "@_agent_a:their.server", "invite", True),
            ("!two:a", "@_agent_a:their.server", "leave", True),
            ("!two:a", "@_agent_b:their.server", "join", True),
        ):
            await connection.execute(ENTRY, room_id, user, membership, is_ours)
        assert await count_ghosts_and_rooms(connection) == GhostCounts(2, 2)
        assert await list_rooms(connection, "", 10) == [("!one:a", 2), ("!two:a", 1)]
        assert await list_rooms(connection, "", 1) == [("!one:a", 2)]
        assert await list_rooms(connection, "!one:a", 10) == [("!two:a", 1)]
        there = ("join", "invite")
        assert await list_ghosts(connection, "!three:a", there, "", 10) == [("@_agent_a:their.server", "invite")]
        assert await list_ghosts(connection, "!three:a", ["join"], "", 10) == []
        both = [("@_agent_a:their.server", "join"), ("@_agent_b:their.server", "join")]
        assert await list_ghosts(connection, "!one:a", there, "", 10) == both
        assert await list_ghosts(connection, "!one:a", there, "", 1) == both[:1]
        assert await list_ghosts(connection, "!one:a", there, both[0][0], 10) == both[1:]
