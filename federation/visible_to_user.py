"""Which of a room's events a user may see. Client-server API, "Room History Visibility"."""

from collections.abc import Mapping
from typing import Any


def user_sees(visibility: Mapping[str, Any] | None, membership: object, *, is_joined_now: bool) -> bool:
    """By the visibility and the user's membership on one side of the event.

    "3. If the visibility was set to `shared`, and the user joined the room at any point after the event was
    sent, allow." Whoever is joined now has. To who has left since only what was said while they were there is
    shown. It is less than they may see, and takes no search through their past.
    """
    value = None if visibility is None else visibility.get("history_visibility")
    # "1. If the visibility was set to `world_readable`, allow. 2. If the user's `membership` was `join`,
    # allow."
    if value == "world_readable" or membership == "join":
        return True
    # "4. If the user's `membership` was `invite`, and the visibility was set to `invited`, allow."
    if value == "invited":
        return membership == "invite"
    # "5. Otherwise, deny." "By default if no history_visibility is set, or if the value is not understood,
    # the visibility is assumed to be `shared`."
    return value != "joined" and is_joined_now
