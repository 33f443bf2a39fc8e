"""Earlier messages as the context of a request."""

from typing import Any

from bridge.people.message import MAX_CONTEXT, MAX_MESSAGE, conversation_context
from bridge.people.texts.text import Kind, Text, content_of
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import edit, text

ALICE, WORKER = "@alice:there", "@worker:here"


def event(event_id: str, sender: str, content: Any, **more: Any) -> RoomEvent:
    return RoomEvent(event_id, "!room", sender, "m.room.message", content, 1, **more)


def test_messages_are_in_order() -> None:
    """Up to the request. Progress, notices, edits, deleted messages and pictures are omitted."""
    events = [
        event("$1", ALICE, text("peel the potatoes")),
        event("$2", WORKER, content_of(Text.of("half of them"), Kind.PROGRESS)),
        event("$3", WORKER, edit("$2", content_of(Text.of("most of them"), Kind.PROGRESS))),
        event("$4", WORKER, content_of(Text.of("done"), Kind.ANSWER)),
        event("$5", "@palaver:here", content_of(Text.of("no permission"), Kind.NOTICE)),
        event("$6", ALICE, {}, is_redacted=True),
        event("$7", ALICE, {"msgtype": "m.image", "body": "x.png"}),
        event("$8", ALICE, text("and now?")),
        event("$9", ALICE, text("what comes after")),
    ]
    assert conversation_context(events, "$8") == f"{ALICE}: peel the potatoes\n\n{WORKER}: done"


def test_the_oldest_messages_are_omitted() -> None:
    """If there are too many. Long messages are cut."""
    events = [event(f"${number}", ALICE, text(f"{number} " + "x" * 20_000)) for number in range(9)]
    context = conversation_context(events, "$none")
    assert len(context) < MAX_CONTEXT + 100
    assert context.startswith("[…]\n\n")
    assert f"{ALICE}: 8 x" in context
    assert max(map(len, context.split("\n\n"))) < MAX_MESSAGE + 100


def test_the_context_may_be_empty() -> None:
    """Or nothing that is text."""
    assert conversation_context([], "$1") == ""
    assert conversation_context([event("$1", ALICE, {"body": 7})], "$2") == ""
