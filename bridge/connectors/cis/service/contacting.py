"""Joins the rooms of peers, and brings peers into ours where those are entered by invite."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from bridge.connectors.cis.act import CisObserver
from bridge.connectors.cis.contacts import Contacts
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.rooms import room_id
from bridge.connectors.cis.service.speech import Speech
from bridge.connectors.cis.settings import NODE_USER, CisSettings
from bridge.matrix_side import MatrixSide
from federation.errors import MatrixError

PATIENCE: Final = 30.0
"""Seconds for an invite."""
_INVITE: Final = "invite "


class Contacting:
    """It runs between `start` and `close`, in one process of a node."""

    def __init__(
        self,
        side: MatrixSide,
        settings: CisSettings,
        speech: Speech,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._side = side
        self._settings = settings
        self._speech = speech
        self._observer = observer
        self._now_ms = now_ms
        self._contacts: Contacts[str] = Contacts(
            {}, now_ms(), retry=settings.retry_ms, longest=settings.longest_retry_ms
        )
        self._woken = asyncio.Event()
        self._trying: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """With the peers that there are now. Whoever starts it tells it from then on of those that change."""
        for peer in self._settings.homeservers():
            self._contacts.want(peer.node_id, self._wanted_of(peer), self._now_ms())
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        works = [work for work in (*self._trying, self._task) if work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def met(self, node_id: str) -> None:
        """A sign of life."""
        self._contacts.met(node_id, self._now_ms())
        self._woken.set()

    def lost(self, node_id: str, where: str) -> None:
        """This node is no longer in that room of the peer."""
        self._speech.gone(where, self._settings.node_user)
        self._contacts.lost(node_id, where, self._now_ms())
        self._woken.set()

    def follow(self, node_id: str) -> None:
        """The peer has come, or gone, or is another one."""
        access = self._settings.access(node_id)
        if access is None or not access.is_homeserver:
            self._contacts.forget(node_id)
        else:
            self._contacts.want(node_id, self._wanted_of(access.peer), self._now_ms())
        self._woken.set()

    def is_in_touch(self, node_id: str) -> bool:
        """Whether this node is in all rooms of the peer that it wants to be in."""
        peer = self._settings.peer(node_id)
        return peer is not None and not any(self._contacts.has(node_id, one) for one in self._wanted_of(peer))

    # -- inside --

    def _wanted_of(self, peer: Peer) -> list[str]:
        wanted = [room_id(room) for room in self._settings.rooms_of(peer)]
        if self._settings.join_rule == "invite":
            ours = (room for room in self._settings.own_rooms() if self._settings.may_use(peer, room))
            wanted = [*(_INVITE + room_id(room) for room in ours), *wanted]
        return wanted

    async def _run(self) -> None:
        while True:
            now_ms = self._now_ms()
            for node_id, what in self._contacts.due(now_ms):
                work = asyncio.create_task(self._try(node_id, what))
                self._trying.add(work)
                work.add_done_callback(self._trying.discard)
            deadline = self._contacts.deadline()
            wait = None if deadline is None else max(0, deadline - now_ms) / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            self._woken.clear()

    async def _try(self, node_id: str, what: str) -> None:
        try:
            if what.startswith(_INVITE):
                async with asyncio.timeout(PATIENCE):
                    await self._invite(what.removeprefix(_INVITE), node_id)
            else:
                await self._speech.come(what, self._settings.node_user, node_id)
        except (MatrixError, TimeoutError):
            self._contacts.failed(node_id, what, self._now_ms())
        except Exception as error:
            self._observer.problem(f"The room {what} of {node_id} could not be joined.", error)
            self._contacts.failed(node_id, what, self._now_ms())
        else:
            self._contacts.done(node_id, what)
        self._woken.set()

    async def _invite(self, where: str, node_id: str) -> None:
        await self._side.invite(where, self._settings.node_user, f"@{NODE_USER}:{node_id}")
