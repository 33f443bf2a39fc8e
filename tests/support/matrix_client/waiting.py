"""Waiting for what others do, on top of whatever tells of it."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from tests.support.matrix_client.seen import Event, Seen

T = TypeVar("T")

# Far above what anything needs: it only ends what would never come.
TIMEOUT = 60.0


class Waiting(Protocol):
    """Somebody who sees things."""

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Until the condition gives something true of all that was ever seen; that something."""
        ...

    async def wait_for(
        self, predicate: Callable[[Event], Any], *, room_id: str | None = None, deadline: float = TIMEOUT
    ) -> Event:
        """The first event of a timeline of which this is true, whether it came already or still has to."""
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

    async def wait_for_text(
        self, body: str, *, room_id: str | None = None, deadline: float = TIMEOUT
    ) -> Event:
        """The message that says just this."""
        return await self.wait_for(
            lambda event: event["content"].get("body") == body, room_id=room_id, deadline=deadline
        )

    async def wait_for_member(
        self, room_id: str, user: str, membership: str, *, deadline: float = TIMEOUT
    ) -> Event:
        """The event that makes somebody's membership that."""
        return await self.wait_for(
            lambda event: (
                (event["type"], event.get("state_key")) == ("m.room.member", user)
                and event["content"].get("membership") == membership
            ),
            room_id=room_id,
            deadline=deadline,
        )

    async def wait_for_invite(self, room_id: str, *, deadline: float = TIMEOUT) -> list[Event]:
        """The stripped state that came with it."""
        return await self.wait_until(lambda seen: seen.invited.get(room_id, []), deadline=deadline)
