"""Looking into rooms through the homeserver, as somebody to whom it shows them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from mautrix.api import Method, Path, PathBuilder

from appservice.received_event import ReceivedEvent, read
from appservice.service.living.parts import MEMBER, HasParts, unknown_room
from appservice.visible_history import Told
from federation.errors import MatrixError
from federation.identifiers import is_event_id, is_room_id

MOST_AT_ONCE: Final = 1_000
MOST_FETCHES: Final = 10
"""How often for one page: a homeserver leaves out what it does not show, and gives less than it was asked
for."""
LONGEST_PLACE: Final = 1_024


@dataclass(frozen=True, slots=True)
class Viewer:
    """As whom the homeserver is asked, and for whom: None for the node itself."""

    user: str
    reader: str | None = None


class Looking(HasParts):
    async def _viewer(self, room_id: str, reader: str | None) -> Viewer | None:
        """None when nobody of ours can look into the room."""
        if not is_room_id(room_id):
            return None
        resident = await self._parts.rooms.resident(room_id)
        return None if resident is None else Viewer(resident, reader)

    async def _stretch(
        self, room_id: str, viewer: Viewer, start: str | None, limit: int, *, backwards: bool
    ) -> tuple[list[Told], str | None]:
        """So many events, and where to go on."""
        told: list[Told] = []
        place = start
        for _ in range(MOST_FETCHES):
            query = {"dir": "b" if backwards else "f", "limit": str(limit - len(told))}
            if place is not None:
                query["from"] = place
            try:
                answer = await self._page(room_id, viewer, query)
            except MatrixError as refused:
                if not is_hidden(refused):
                    raise
                viewer = await self._another(room_id, viewer)
                answer = await self._page(room_id, viewer, query)
            told += told_in(answer.get("chunk"), room_id)
            end = answer.get("end")
            if not isinstance(end, str) or not is_place(end) or end == place:
                return told[:limit], None
            place = end
            if len(told) >= limit:
                break
        # Whoever is shown nothing after that many pages is shown no further ones.
        return told[:limit], place if told else None

    async def _page(self, room_id: str, viewer: Viewer, query: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            return await self._ask(Path.v3.rooms[room_id].messages, viewer, query)
        except MatrixError as refused:
            if refused.status == 400 and "from" in query:
                raise _no_place() from refused
            raise

    async def _another(self, room_id: str, viewer: Viewer) -> Viewer:
        """Whoever was there may have been put out a moment ago: it shows when the state is fetched."""
        await self._parts.rooms.doubt(room_id)
        await self._parts.rooms.state(room_id, MEMBER)
        resident = await self._resident(room_id)
        if resident == viewer.user:
            raise unknown_room()
        return replace(viewer, user=resident)

    async def _one(self, room_id: str, event_id: str, viewer: Viewer) -> Told | None:
        try:
            answer = await self._ask(Path.v3.rooms[room_id].event[event_id], viewer)
        except MatrixError as refused:
            if not is_hidden(refused):
                raise
            return None
        return next((one for one in told_in([answer], room_id) if one.event.event_id == event_id), None)

    async def _around(
        self, room_id: str, event_id: str, viewer: Viewer, query: Mapping[str, str]
    ) -> Mapping[str, Any] | None:
        try:
            return await self._ask(Path.v3.rooms[room_id].context[event_id], viewer, query)
        except MatrixError as refused:
            if not is_hidden(refused):
                raise
            return None

    async def _ask(
        self, path: PathBuilder, viewer: Viewer, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return await self._parts.client.ask(Method.GET, path, user=viewer.user, query=query)


def told_in(listed: object, room_id: str) -> list[Told]:
    """What can be read of it. A homeserver need not say in which room an event is that it was asked for
    there."""
    told = []
    for value in islice(listed, 2 * MOST_AT_ONCE) if isinstance(listed, list) else ():
        if not isinstance(value, Mapping):
            continue
        received = read({"room_id": room_id, **value})
        if isinstance(received, ReceivedEvent) and received.event.room_id == room_id:
            unsigned = value.get("unsigned")
            told.append(Told(received.event, unsigned if isinstance(unsigned, Mapping) else {}))
    return told


def is_hidden(refused: MatrixError) -> bool:
    """What is not there, or not for whoever looks."""
    return refused.status in {403, 404}


def can_be_asked(event_id: str) -> bool:
    return is_event_id(event_id) and event_id.isprintable()


def is_place(token: str) -> bool:
    return 0 < len(token) <= LONGEST_PLACE and token.isascii() and token.isprintable()


def refuse_place(start: str) -> None:
    """What it says is the homeserver's own; what it cannot be is not sent there."""
    if not is_place(start):
        raise _no_place()


def _no_place() -> MatrixError:
    return MatrixError("M_INVALID_PARAM", "That is no place in a timeline.", 400)
