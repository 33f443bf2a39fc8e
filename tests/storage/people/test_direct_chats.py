"""Direct chats of people with agents."""

from storage.database import Database
from storage.people.direct_chats import fetch_chat, fetch_chats, upsert_chat

ALICE, BOB = "@alice:their.server", "@bob:their.server"
WORKER, COOK = "worker-1@kitchen.local", "cook@cellar.local"


async def test_a_person_has_one_chat_with_each_agent(database: Database) -> None:
    """The newest one; other people have other chats."""
    async with database.transaction() as connection:
        assert await fetch_chat(connection, ALICE, WORKER) is None
        for user, agent, room_id in (
            (ALICE, WORKER, "!1"), (ALICE, COOK, "!2"), (BOB, WORKER, "!3"), (ALICE, WORKER, "!4"),
        ):  # fmt: skip
            await upsert_chat(connection, user, agent, room_id)
        assert await fetch_chat(connection, ALICE, WORKER) == "!4"
        assert await fetch_chats(connection, ALICE, [WORKER, COOK, "x@y"]) == {WORKER: "!4", COOK: "!2"}
        assert await fetch_chats(connection, BOB, [COOK]) == {}
