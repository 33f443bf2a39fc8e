"""What was said before."""

from typing import Any

from bridge.people.message import MOST_CHARACTERS, MOST_OF_ONE, context_of
from bridge.people.texts.text import Kind, Text, content_of
from federation.events.room_event import RoomEvent
from federation.matrix.message_content import edit, text

ALICE, WORKER = "@alice:there", "@worker:here"


def event(event_id: str, sender: str, content: Any, **more: Any) -> RoomEvent:
    return RoomEvent(event_id, "!room", sender, "m.room.message", content, 1, **more)


def test_people_and_agents_in_their_order() -> None:
    """Up to the request, without what is no part of a conversation: progress, the node's words, edits, what
    was deleted, pictures."""
    events = [
        event("$1", ALICE, text("peel the potatoes")),
        event("$2", WORKER, content_of(Text.of("half of them"), Kind.PROGRESS)),
        event("$3", WORKER, edit("$2", content_of(Text.of("most of them"), Kind.PROGRESS))),
        event("$4", WORKER, content_of(Text.of("done"), Kind.ANSWER)),
        event("$5", "@palaver:here", content_of(Text.of("no permission"), Kind.WORD)),
        event("$6", ALICE, {}, is_redacted=True),
        event("$7", ALICE, {"msgtype": "m.image", "body": "x.png"}),
        event("$8", ALICE, text("and now?")),
        event("$9", ALICE, text("what comes after")),
    ]
    assert context_of(events, "$8") == f"{ALICE}: peel the potatoes\n\n{WORKER}: done"


def test_the_newest_is_kept() -> None:
    """Of what is too much; each message is cut by itself, too."""
    events = [event(f"${number}", ALICE, text(f"{number} " + "x" * 20_000)) for number in range(9)]
    context = context_of(events, "$none")
    assert len(context) < MOST_CHARACTERS + 100
    assert context.startswith("[…]\n\n")
    assert f"{ALICE}: 8 x" in context
    assert max(map(len, context.split("\n\n"))) < MOST_OF_ONE + 100


def test_nothing_was_said() -> None:
    """Or nothing that is text."""
    assert context_of([], "$1") == ""
    assert context_of([event("$1", ALICE, {"body": 7})], "$2") == ""
