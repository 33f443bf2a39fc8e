"""Says something in a room, as an agent of this node or as the node itself.

An agent's user comes into a room when it first speaks there. The same thing may be said again: under its name
it is the same event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from bridge.address import AgentAddress
from bridge.connectors.cis import content, large_output
from bridge.connectors.cis.act import Act, CisObserver, Verdict, subject_of
from bridge.connectors.cis.events import AnyEvent
from bridge.connectors.cis.profile import PeerProfile
from bridge.connectors.cis.refusals import TooLarge
from bridge.connectors.cis.rooms import AgentRoom, room_id
from bridge.connectors.cis.service.long_texts import fitting
from bridge.connectors.cis.settings import CisSettings
from bridge.ghost import NoGhost, user_id
from bridge.matrix_side import MakesReady, MatrixSide
from bridge.service.ghosts import Ghosts
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.service.single_flight import SingleFlight

MOST_REMEMBERED: Final = 100_000
"""Of who is in which room."""
MOST_SPEAKERS: Final = 10_000
"""Of whom it is remembered which users they are."""
PATIENCE: Final = 10.0
"""Seconds that coming into a room may take. Whoever has something to say tries again."""


@dataclass(frozen=True, slots=True)
class Said:
    event_id: str


@dataclass(frozen=True, slots=True)
class NotSaid:
    """`is_final`: it would be the same the next time."""

    reason: str
    is_final: bool = False


class Speech:
    def __init__(
        self, side: MatrixSide, settings: CisSettings, observer: CisObserver, ghosts: Ghosts
    ) -> None:
        self._side = side
        self._ready_side = side if isinstance(side, MakesReady) else None
        self._settings = settings
        self._observer = observer
        self._ghosts = ghosts
        self._there: BoundedCache[tuple[str, str], bool] = BoundedCache(MOST_REMEMBERED)
        self._users: BoundedCache[AgentAddress, str] = BoundedCache(MOST_SPEAKERS)
        self._coming: SingleFlight[tuple[str, str], None] = SingleFlight()

    async def close(self) -> None:
        await self._coming.close()

    def make_ready(self, event: AnyEvent, room: AgentRoom, speaker: AgentAddress) -> Mapping[str, Any] | None:
        """What will perhaps be said in a moment: its content, for `say`. None if it is not that simple."""
        user = self._user(speaker)
        if isinstance(user, NotSaid):
            return None
        said = content.render(event, PeerProfile.MATRIX)
        if not large_output.fits(said, PeerProfile.MATRIX):
            return None
        if self._ready_side is not None:
            self._ready_side.make_ready(room_id(room), user, event.TYPE, said)
        return said

    async def say(
        self,
        event: AnyEvent,
        room: AgentRoom,
        speaker: AgentAddress,
        name: str,
        ready: Mapping[str, Any] | None = None,
    ) -> Said | NotSaid:
        """`speaker` is an agent of this node; `name` is what the event is known by when it is said again;
        `ready` is what `make_ready` gave for it."""
        user = self._user(speaker)
        if isinstance(user, NotSaid):
            return user
        where = room_id(room)
        said = content.render(event, PeerProfile.MATRIX) if ready is None else ready
        if ready is None and not large_output.fits(said, PeerProfile.MATRIX):
            short = await fitting(self._side, event, user, PeerProfile.MATRIX)
            if isinstance(short, TooLarge):
                return NotSaid(short.reason, is_final=True)
            said = content.render(short, PeerProfile.MATRIX)
        # A transaction id has at most 255 bytes; names hold what others have chosen.
        transaction_id = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        outcome = await self._in_room(
            where,
            room.node_id,
            user,
            lambda: self._side.send(where, user, event.TYPE, said, transaction_id=transaction_id),
        )
        self._note(event, user, where, room.node_id, outcome)
        return outcome

    async def set_state(self, event: AnyEvent, room: AgentRoom, state_key: str) -> Said | NotSaid:
        """The node says it, and the room keeps it."""
        user, where = self._settings.node_user, room_id(room)
        said: Mapping[str, Any] = content.render(event, PeerProfile.MATRIX)
        outcome = await self._in_room(
            where, room.node_id, user, lambda: self._side.set_state(where, user, event.TYPE, said, state_key)
        )
        self._note(event, user, where, room.node_id, outcome)
        return outcome

    async def come(self, where: str, user: str, via: str) -> None:
        """Let a user of this node be in a room. Raises `MatrixError`, and `TimeoutError` when it takes too
        long: then it may still happen."""
        is_there = self._there.get((where, user)) is not None
        if is_there and self._ghosts.is_as_it_was(user):
            return
        async with asyncio.timeout(PATIENCE):
            if not is_there:
                await self._coming.run((where, user), lambda: self._come(where, user, via))
            else:
                # It may be another one than it was when it came.
                await self._ghosts.appear(user)

    def gone(self, where: str, user: str) -> None:
        """The user has left the room, or was made to."""
        self._there.forget((where, user))

    # -- inside --

    def _user(self, speaker: AgentAddress) -> str | NotSaid:
        if not self._settings.is_own(speaker):
            return NotSaid(f"{speaker} is no agent of this node.", is_final=True)
        user = self._users.get(speaker)
        if user is None:
            ghost = user_id(speaker)
            if isinstance(ghost, NoGhost):
                return NotSaid(ghost.reason, is_final=True)
            self._users.put(speaker, user := ghost)
        return user

    async def _in_room(
        self, where: str, via: str, user: str, act: Callable[[], Awaitable[str]]
    ) -> Said | NotSaid:
        """Once more from the beginning when it turns out that the user is not there after all."""
        for is_last in (False, True):
            was_there = self._there.get((where, user)) is not None
            try:
                await self.come(where, user, via)
                return Said(await act())
            except MatrixError as refused:
                self.gone(where, user)
                if is_last or not was_there or refused.status not in (403, 404):
                    return NotSaid(refused.text, is_final=refused.errcode in {"M_TOO_LARGE", "M_BAD_JSON"})
            except TimeoutError:
                return NotSaid(f"The room {where} could not be reached in time.")
        raise AssertionError("the second time is the last")

    async def _come(self, where: str, user: str, via: str) -> None:
        await self._ghosts.let_in(where, user, via=[via])
        self._there.put((where, user), True)

    def _note(self, event: AnyEvent, user: str, where: str, node_id: str, outcome: Said | NotSaid) -> None:
        failed = outcome.reason if isinstance(outcome, NotSaid) else None
        self._observer.acted(
            Act(
                None if node_id == self._settings.node_id else node_id,
                event.TYPE,
                Verdict.SENT if failed is None else Verdict.FAILED,
                user,
                where,
                subject_of(event),
                failed,
            )
        )
