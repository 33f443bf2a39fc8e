"""The names by which somebody could be called in each room."""

from bridge.people.service import room_names as module
from bridge.people.service.room_names import RoomNames
from federation.message_content import text
from storage.database import Database
from tests.federation.service.living.homes import inhabited


async def test_names_are_believed_for_a_moment(database: Database) -> None:
    """Then it is looked again who is there. Of a room that is not known it is said that nobody is called."""
    now = 0.0
    async with inhabited("here", database) as home:
        worker, carol = await home.user("worker"), await home.user("carol")
        room_id = await home.room(worker)
        names = RoomNames(home.rooms, lambda: now)
        said = text("ask Carol")
        assert "m.mentions" not in await names.without_list(room_id, said)
        await home.rooms.join(room_id, carol)
        assert "m.mentions" not in await names.without_list(room_id, said)
        now = module.BELIEVED
        assert await names.without_list(room_id, said) == said
        assert "m.mentions" not in await names.without_list(room_id, text("done"))
        assert await names.without_list("!nowhere:here", text("done")) == text("done")
