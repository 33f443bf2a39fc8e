"""What is to be heard in order."""

import pytest

from appservice.local_users.sending import MAIN, ordering_lane
from federation.matrix.message_content import edit, in_thread, reaction, reply, text


@pytest.mark.parametrize(
    ("content", "lane"),
    [
        (text("hello"), MAIN),
        (reply("$1", text("hello")), MAIN),
        (in_thread("$1", text("hello")), "m.thread $1"),
        (edit("$1", text("hello")), "m.replace $1"),
        (reaction("$1", "👍"), None),
        ({"m.relates_to": {"rel_type": "m.thread"}}, MAIN),
        ({"m.relates_to": {"rel_type": "m.thread", "event_id": 5}}, MAIN),
        ({"m.relates_to": {"rel_type": ["m.annotation"]}}, MAIN),
        ({"m.relates_to": "m.annotation"}, MAIN),
    ],
)
def test_threads_are_read_each_for_itself(content: dict[str, object], lane: str | None) -> None:
    """What is said outside of them is one of them."""
    assert ordering_lane(content) == lane
