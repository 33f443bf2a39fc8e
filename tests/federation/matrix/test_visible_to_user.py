"""Which events of a room a user may see."""

import pytest

from federation.events.room_event import is_visible_to_user

SEEN_BY = {
    "world_readable": {"join", "invite", "leave", None, "now"},
    "shared": {"join", "now"},
    "invited": {"join", "invite"},
    "joined": {"join"},
    "unheard of": {"join", "now"},
    7: {"join", "now"},
    None: {"join", "now"},
}


@pytest.mark.parametrize("visibility", SEEN_BY)
def test_visibility(visibility: object) -> None:
    """The table of the specification, by the user's membership at the event, and whether the user is joined
    now."""
    content = None if visibility is None else {"history_visibility": visibility}
    seen = {one for one in ("join", "invite", "leave", None) if is_visible_to_user(content, one, is_joined_now=False)}
    seen |= {"now"} if is_visible_to_user(content, "leave", is_joined_now=True) else set()
    assert seen == SEEN_BY[visibility]
