"""To-device messages until they are read."""

from storage.database import Connection, Database
from storage.federation.edus import NewMessage, delete_messages, fetch_messages, insert_messages
from storage.federation.users import insert_user

US, OTHER = "@us:a.example", "@other:a.example"


def message(number: int, user: str = US) -> NewMessage:
    return NewMessage(user, "*", "@them:b.example", "m.x", b'{"n":%d}' % number)


async def users(connection: Connection) -> None:
    for user in (US, OTHER):
        await insert_user(connection, user, 1)


async def test_messages_are_stored_in_order_until_they_are_read(database: Database) -> None:
    """Read messages are deleted one by one."""
    async with database.transaction() as connection:
        await users(connection)
        await insert_messages(connection, [], 10)
        await insert_messages(connection, [message(1), message(2), message(3), message(9, OTHER)], 10)
        first, second = await fetch_messages(connection, US, 2)
        assert (first.content, second.content) == (b'{"n":1}', b'{"n":2}')
        assert first[1:] == message(1)
        await delete_messages(connection, US, [first.position, second.position])
        assert [one.content for one in await fetch_messages(connection, US, 9)] == [b'{"n":3}']
        assert len(await fetch_messages(connection, OTHER, 9)) == 1


async def test_the_oldest_messages_are_deleted_beyond_the_limit(database: Database) -> None:
    """Messages that are never read cannot fill the database."""
    async with database.transaction() as connection:
        await users(connection)
        await insert_messages(connection, [message(n) for n in range(5)], 3)
        await insert_messages(connection, [message(5), message(0, OTHER)], 3)
        kept = [one.content for one in await fetch_messages(connection, US, 9)]
        assert kept == [b'{"n":%d}' % n for n in (3, 4, 5)]
        assert len(await fetch_messages(connection, OTHER, 9)) == 1


async def test_messages_for_unknown_users_are_not_stored(database: Database) -> None:
    async with database.transaction() as connection:
        await users(connection)
        await insert_messages(connection, [message(1), message(2, "@nobody:a.example")], 3)
        assert await fetch_messages(connection, "@nobody:a.example", 9) == []
        assert len(await fetch_messages(connection, US, 9)) == 1
