"""Registers ghosts with the homeserver when they are needed, and remembers which are registered."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from cachetools import LRUCache
from mautrix.api import Method

from appservice.homeserver.client import LIMIT_EXCEEDED, HomeserverClient
from appservice.registration.check import REGISTER, Response, register_body, register_problem
from appservice.registration.namespaces import Namespaces
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight
from storage.database import Database
from storage.federation.users import insert_user, is_user

MAX_USERS: Final = 10_000


async def ignore(user: str) -> None:
    """The default for `on_created`."""


class GhostUsers:
    """`on_created` is called with each ghost that the homeserver has just created. Call `close` at the
    end."""

    def __init__(
        self,
        client: HomeserverClient,
        namespaces: Namespaces,
        database: Database,
        *,
        now_ms: Callable[[], int],
        on_created: Callable[[str], Awaitable[None]] = ignore,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._database = database
        self._now_ms = now_ms
        self._on_created = on_created
        self._registering: SingleFlight[str, None] = SingleFlight()
        # Registered ghosts. They are never unregistered.
        self._known: LRUCache[str, bool] = LRUCache(MAX_USERS)

    async def close(self) -> None:
        await self._registering.close()

    async def ensure_user(self, user: str) -> None:
        """On return the ghost is registered with the homeserver. Raises `MatrixError`."""
        if self._namespaces.agent(user) is None:
            raise MatrixError("M_EXCLUSIVE", "This user is not the ghost of any agent.")
        if not await self.is_registered(user):
            await self._registering.run(user, partial(self._register, user))

    async def is_registered(self, user: str) -> bool:
        """Whether this node has recorded the ghost as registered."""
        if self._known.get(user) is None:
            if not await self._database.read(partial(is_user, user_id=user)):
                return False
            self._known[user] = True
        return True

    async def _register(self, user: str) -> None:
        if user in self._known:
            # Registered while the database was read.
            return
        try:
            await self._client.request(Method.POST, REGISTER, register_body(user))
        except MatrixError as refused:
            # A ghost that exists but is not in the database was registered before a process was killed, or by
            # an earlier node with this name. It is in this node's namespace, so it belongs to this node.
            response = Response(refused.status, refused.body())
            problem = register_problem(response, user, self._namespaces)
            if refused.errcode == LIMIT_EXCEEDED:
                raise
            if problem is not None:
                raise MatrixError(refused.errcode, problem, refused.status) from None
        else:
            await self._on_created(user)
        # After the homeserver has registered it, so that recorded ghosts always exist.
        async with self._database.transaction() as connection:
            await insert_user(connection, user, self._now_ms())
        self._known[user] = True
