"""The lanes in which events keep their order."""

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
def test_each_thread_has_its_lane(content: dict[str, object], lane: str | None) -> None:
    """The main timeline is one lane."""
    assert ordering_lane(content) == lane
