"""Waiting for events of others, on top of any source of them."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tests.support.matrix_client.seen import Event, Seen

T = TypeVar("T")

# Far above what anything needs: it only ends what would never come.
TIMEOUT = 60.0


class Waiting(Protocol):
    """A user that sees events."""

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Wait until the condition returns something true for all that was seen so far, and return it."""
        ...

    async def wait_for(
        self, predicate: Callable[[Event], Any], *, room_id: str | None = None, deadline: float = TIMEOUT
    ) -> Event:
        """Return the first event of a timeline that matches, past or future."""
        start = 0

        def find(seen: Seen) -> Event | None:
            nonlocal start
            for event in seen.timeline[start:]:
                start += 1
                if room_id in (None, event["room_id"]) and predicate(event):
                    return event
            return None

        found = await self.wait_until(find, deadline=deadline)
        assert found is not None
        return found

    async def wait_for_event(self, event_id: str, *, deadline: float = TIMEOUT) -> Event:
        return await self.wait_for(lambda event: event["event_id"] == event_id, deadline=deadline)

    async def wait_for_text(self, body: str, *, room_id: str | None = None, deadline: float = TIMEOUT) -> Event:
        """Return the message with exactly this text."""
        return await self.wait_for(
            lambda event: event["content"].get("body") == body, room_id=room_id, deadline=deadline
        )

    async def wait_for_member(self, room_id: str, user: str, membership: str, *, deadline: float = TIMEOUT) -> Event:
        """Return the event that gives a user this membership."""
        return await self.wait_for(
            lambda event: (
                (event["type"], event.get("state_key")) == ("m.room.member", user)
                and event["content"].get("membership") == membership
            ),
            room_id=room_id,
            deadline=deadline,
        )

    async def wait_for_invite(self, room_id: str, *, deadline: float = TIMEOUT) -> list[Event]:
        """Return the stripped state of the invite."""
        return await self.wait_until(lambda seen: seen.invited.get(room_id, []), deadline=deadline)
