"""The names by which somebody could be called in each room."""

from bridge.people.service import room_names as module
from bridge.people.service.room_names import RoomNames
from federation.message_content import text
from storage.database import Database
from tests.federation.service.living.homes import inhabited


async def test_names_are_believed_for_a_moment(database: Database) -> None:
    """Then it is said again that nobody is called, until it was looked who is there; as of a room that is not
    known."""
    now = 0.0
    async with inhabited("here", database) as home:
        worker, carol = await home.user("worker"), await home.user("carol")
        room_id = await home.room(worker)
        names = RoomNames(home.rooms, lambda: now)
        said = text("ask Carol")
        assert names.without_list(room_id, said) == said
        await names.learn(room_id)
        assert "m.mentions" not in names.without_list(room_id, said)
        await home.rooms.join(room_id, carol)
        await names.learn(room_id)
        assert "m.mentions" not in names.without_list(room_id, said)
        now = module.BELIEVED
        assert names.without_list(room_id, text("done")) == text("done")
        await names.learn(room_id)
        assert names.without_list(room_id, said) == said
        assert "m.mentions" not in names.without_list(room_id, text("done"))
        await names.learn("!nowhere:here")
        assert names.without_list("!nowhere:here", text("done")) == text("done")
