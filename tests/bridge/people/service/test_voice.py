"""Says things in rooms as users of this node."""

from bridge.people.service.messenger import Voice, beside
from bridge.people.texts.text import Kind, Text, content_of
from federation.matrix.message_content import text
from storage.database import Database
from tests.federation.local_users.homes import bodies, homeserver_without_port


async def test_what_is_said_again_is_the_same(database: Database) -> None:
    """And what a room does not take is told of, and not tried for ever."""
    problems: list[str] = []
    async with homeserver_without_port("here", database) as home:
        worker, stranger = await home.user("worker"), await home.user("stranger")
        room_id = await home.room(worker)
        voice = Voice(home.rooms, database, worker, lambda sentence, error: problems.append(sentence))
        assert await voice.speaker(room_id, (None, stranger, worker)) == worker
        assert await voice.speaker(room_id, (stranger,)) is None
        assert await voice.speaker("!nowhere", (worker,)) is None
        first = await voice.say(room_id, worker, text("a"), "task/1")
        assert first is not None
        assert await voice.say(room_id, worker, text("a"), "task/1") == first
        edited = await voice.edit(room_id, first, content_of(Text.of("b"), Kind.WORD), "task/1/e")
        assert edited is not None
        assert await voice.edit(room_id, "$nothing", text("b")) is None
        sign = await voice.react(room_id, worker, first, "⏳", "task/1/s")
        assert sign is not None
        await voice.take_back(room_id, sign, "task/1/-s")
        await voice.take_back(room_id, sign, "task/1/-s")
        await voice.take_back(room_id, "$nothing", "x")
        taken = await home.rooms.event(room_id, sign)
        assert taken is not None
        assert taken.is_redacted
        assert problems == []
        assert await voice.say(room_id, stranger, text("c")) is None
        assert problems == [f"Something could not be said in the room {room_id}."]


async def test_something_is_said_once_in_a_room(database: Database) -> None:
    """However often there is reason for it."""
    async with homeserver_without_port("here", database) as home:
        worker = await home.user("worker")
        room_id = await home.room(worker)
        voice = Voice(home.rooms, database, worker, lambda sentence, error: None)
        for _ in range(3):
            await voice.cannot_read(room_id, [worker])
        await voice.cannot_read("!nowhere", [worker])
        page = await home.rooms.messages(room_id)
        [said] = [body for body in bodies(page.events) if body is not None]
        assert str(said).startswith("This room is encrypted")


def test_beside_what_was_asked() -> None:
    """In its thread, where what begins the thread is no answer of its own; or in the room."""
    in_thread = beside(text("a"), request="$further", root="$root")["m.relates_to"]
    assert in_thread["m.in_reply_to"] == {"event_id": "$further"}
    assert in_thread["is_falling_back"] is False
    first = beside(text("a"), request="$root", root="$root")["m.relates_to"]
    assert (first["event_id"], first["is_falling_back"]) == ("$root", True)
    assert beside(text("a"), request="$r", root=None)["m.relates_to"] == {"m.in_reply_to": {"event_id": "$r"}}
