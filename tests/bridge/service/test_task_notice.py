"""What desks tell each other."""

import asyncio

import pytest

from bridge.address import AgentAddress
from bridge.service.task_notice import MOST_WAITING, TaskNotices
from bridge.task_request import TaskKey
from storage import tasks
from storage.database import Database

CROWDED = AgentAddress('w"o\\rker', "here")
HOSTILE = TaskKey('n"o\\de', "\x01" * 255)


async def test_a_notice_reaches_the_others_and_not_oneself(database: Database) -> None:
    """Whatever the ids are made of, and as long as they may be."""
    one, other = TaskNotices(database), TaskNotices(database)
    heard: asyncio.Queue[str] = asyncio.Queue()

    def hear(connection: object, pid: int, channel: str, payload: object) -> None:
        heard.put_nowait(str(payload))

    async with database.connection() as connection:
        await connection.add_listener(tasks.CHANNEL, hear)
        one.start()
        try:
            one.tell(HOSTILE)
            notice = await heard.get()
            assert other.read(notice) == HOSTILE
            assert one.read(notice) is None
            one.tell(CROWDED)
            assert other.read(await heard.get()) == CROWDED
        finally:
            await one.close()
            await connection.remove_listener(tasks.CHANNEL, hear)


@pytest.mark.parametrize("notice", ["", "{", "[]", '["a","b"]', '["a","b",3]', "\ud800", '{"a":1}'])
async def test_what_is_no_notice_is_left_alone(database: Database, notice: str) -> None:
    """Anybody with the database may write one."""
    assert TaskNotices(database).read(notice) is None


async def test_what_waits_to_be_told_is_bounded(database: Database) -> None:
    """The next sweep tells what was left out."""
    notices = TaskNotices(database)
    for number in range(MOST_WAITING + 5):
        notices.tell(TaskKey("living", str(number)))
    assert len(notices._waiting) == MOST_WAITING
    await notices.close()
