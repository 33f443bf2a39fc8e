"""The users of ours on the homeserver: made there when they are needed, and known here from then on."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from cachetools import LRUCache
from mautrix.api import Method

from appservice.homeserver.client import LIMIT_EXCEEDED, HomeserverClient
from appservice.registration.check import REGISTER, Answer, register_body, wrong_register
from appservice.registration.namespaces import Namespaces
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight
from storage.database import Database
from storage.federation.users import insert_user, is_user

MOST_USERS: Final = 10_000


async def nobody(user: str) -> None:
    """Nobody is told of a ghost that was made."""


class GhostUsers:
    """`made` is told of each ghost that the homeserver has just made. It is closed at the end."""

    def __init__(
        self,
        client: HomeserverClient,
        namespaces: Namespaces,
        database: Database,
        *,
        now_ms: Callable[[], int],
        made: Callable[[str], Awaitable[None]] = nobody,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._database = database
        self._now_ms = now_ms
        self._made = made
        self._making: SingleFlight[str, None] = SingleFlight()
        # That they are there. Nobody unmakes one.
        self._known: LRUCache[str, bool] = LRUCache(MOST_USERS)

    async def close(self) -> None:
        await self._making.close()

    async def ensure_user(self, user: str) -> None:
        """When it returns, the homeserver knows this ghost. Raises `MatrixError`."""
        if self._namespaces.agent(user) is None:
            raise MatrixError("M_EXCLUSIVE", "No agent has this user for its ghost.")
        if not await self.is_known(user):
            await self._making.run(user, partial(self._make, user))

    async def is_known(self, user: str) -> bool:
        """Whether it has been made, as far as this node has written down."""
        if self._known.get(user) is None:
            if not await self._database.read(partial(is_user, user_id=user)):
                return False
            self._known[user] = True
        return True

    async def _make(self, user: str) -> None:
        try:
            await self._client.ask(Method.POST, REGISTER, register_body(user))
        except MatrixError as refused:
            # One that is there and is not in our database was made before a process was killed, or by whoever
            # had this name for its node before: it is in our namespace, so that it is ours.
            answer = Answer(refused.status, refused.body())
            wrong = wrong_register(answer, user, self._namespaces)
            if refused.errcode == LIMIT_EXCEEDED:
                raise
            if wrong is not None:
                raise MatrixError(refused.errcode, wrong, refused.status) from None
        else:
            await self._made(user)
        # After the homeserver has made it: what is written down here is there.
        async with self._database.transaction() as connection:
            await insert_user(connection, user, self._now_ms())
        self._known[user] = True
