"""The pictures of agents where rooms can show them: each is uploaded once for a node, not once for each
process or each start."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from bridge.avatar_picture import CONTENT_TYPE, picture
from bridge.ghost import Avatar, avatar
from bridge.matrix_side import MatrixSide
from bridge.service.session import Report
from federation.bounded_cache import BoundedCache
from federation.media import Mxc
from storage import media
from storage.connecting import ConnectionLost
from storage.database import Database

PATIENCE: Final = 5.0
"""Seconds that it may take: somebody waits for it who has something to say."""
AGAIN: Final = 60.0
"""Seconds until one that could not be uploaded is tried again."""
MOST: Final = 1_000
"""Different pictures in one life of the node. Agents name their runtimes themselves, and uploads are kept for
good."""
ANY: Final = avatar("")
"""That of every other runtime."""


class Avatars:
    """`uploader` is a user of this node."""

    def __init__(
        self,
        side: MatrixSide,
        database: Database,
        uploader: str,
        *,
        monotonic: Callable[[], float],
        report: Report,
        most: int = MOST,
    ) -> None:
        self._side = side
        self._database = database
        self._uploader = uploader
        self._monotonic = monotonic
        self._report = report
        self._most = most
        self._urls: dict[Avatar, str] = {}
        self._again_at: BoundedCache[Avatar, float] = BoundedCache(MOST)
        self._turn = asyncio.Lock()

    async def url(self, one: Avatar) -> str | None:
        """`mxc://…`. None: it cannot be had for the moment, which has been reported."""
        one = self._allowed(one)
        if self._is_settled(one):
            return self._urls.get(one)
        try:
            async with asyncio.timeout(PATIENCE), self._turn:
                # Others may have been before it.
                one = self._allowed(one)
                if not self._is_settled(one):
                    self._urls[one] = await self._find_or_upload(one)
        except ConnectionLost:
            raise
        except Exception as error:
            # Of all who wait for it at the same time one reports it.
            if not self._is_settled(one):
                self._again_at.put(one, self._monotonic() + AGAIN)
                self._report(f"The avatar {one.kind} could not be uploaded.", error)
        return self._urls.get(one)

    def _allowed(self, one: Avatar) -> Avatar:
        return one if one in self._urls or len(self._urls) < self._most else ANY

    def _is_settled(self, one: Avatar) -> bool:
        """It is there, or has failed just now."""
        again_at = self._again_at.get(one)
        return one in self._urls or (again_at is not None and self._monotonic() < again_at)

    async def _find_or_upload(self, one: Avatar) -> str:
        # It takes some milliseconds, in which others are not to wait.
        drawn = await asyncio.to_thread(picture, one)
        digest = sha256(drawn).digest()
        async with self._database.transaction() as connection:
            await media.lock_upload(connection, digest)
            here = self._side.server_name
            media_id = await media.find_upload(connection, here, self._uploader, digest)
            if media_id is not None:
                return str(Mxc(here, media_id))
            await self._side.ensure_user(self._uploader)
            info = await self._side.upload(self._uploader, drawn, CONTENT_TYPE, f"{one.kind}.png")
        return str(info.mxc)
