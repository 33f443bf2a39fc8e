"""Sending messages to rooms."""

from bridge.people.service.messenger import Messenger, relate_to_request
from bridge.people.texts.text import Kind, Text, content_of
from federation.matrix.message_content import text
from storage.database import Database
from tests.federation.local_users.homes import bodies, homeserver_without_port


async def test_an_event_with_the_same_transaction_id_is_sent_once(database: Database) -> None:
    """An event that the room refuses is reported and not retried."""
    problems: list[str] = []
    async with homeserver_without_port("here", database) as home:
        worker, stranger = await home.user("worker"), await home.user("stranger")
        room_id = await home.room(worker)
        messenger = Messenger(home.rooms, database, worker, lambda sentence, error: problems.append(sentence))
        assert await messenger.find_sender(room_id, (None, stranger, worker)) == worker
        assert await messenger.find_sender(room_id, (stranger,)) is None
        assert await messenger.find_sender("!nowhere", (worker,)) is None
        first = await messenger.send(room_id, worker, text("a"), "task/1")
        assert first is not None
        assert await messenger.send(room_id, worker, text("a"), "task/1") == first
        edited = await messenger.edit(room_id, first, content_of(Text.of("b"), Kind.NOTICE), "task/1/e")
        assert edited is not None
        assert await messenger.edit(room_id, "$nothing", text("b")) is None
        sign = await messenger.react(room_id, worker, first, "⏳", "task/1/s")
        assert sign is not None
        await messenger.redact(room_id, sign, "task/1/-s")
        await messenger.redact(room_id, sign, "task/1/-s")
        await messenger.redact(room_id, "$nothing", "x")
        taken = await home.rooms.event(room_id, sign)
        assert taken is not None
        assert taken.is_redacted
        assert problems == []
        assert await messenger.send(room_id, stranger, text("c")) is None
        assert problems == [f"An event could not be sent to the room {room_id}."]


async def test_a_notice_is_sent_once_to_a_room(database: Database) -> None:
    """However often there is reason for it."""
    async with homeserver_without_port("here", database) as home:
        worker = await home.user("worker")
        room_id = await home.room(worker)
        messenger = Messenger(home.rooms, database, worker, lambda sentence, error: None)
        for _ in range(3):
            await messenger.notify_encrypted(room_id, [worker])
        await messenger.notify_encrypted("!nowhere", [worker])
        page = await home.rooms.messages(room_id)
        [said] = [body for body in bodies(page.events) if body is not None]
        assert str(said).startswith("This room is encrypted")


def test_the_relation_to_a_request() -> None:
    """In its thread, where the fallback for other clients refers to the root; or as a reply in the room."""
    in_thread = relate_to_request(text("a"), request="$further", root="$root")["m.relates_to"]
    assert in_thread["m.in_reply_to"] == {"event_id": "$further"}
    assert in_thread["is_falling_back"] is False
    first = relate_to_request(text("a"), request="$root", root="$root")["m.relates_to"]
    assert (first["event_id"], first["is_falling_back"]) == ("$root", True)
    assert relate_to_request(text("a"), request="$r", root=None)["m.relates_to"] == {
        "m.in_reply_to": {"event_id": "$r"}
    }
