"""The users of ours on the homeserver: made there when they are needed, and known here from then on."""

from collections.abc import Callable
from functools import partial

import aiohttp

from appservice.homeserver_check import REGISTER, NoAnswer, register_body, wrong_register
from appservice.namespaces import Namespaces
from appservice.registration import Registration
from appservice.service.asking import ask
from federation.errors import MatrixError
from federation.service.single_flight import SingleFlight
from storage.database import Database
from storage.users import insert_user, is_user


class GhostUsers:
    """`homeserver` is the address of its port for clients. It is closed at the end."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        homeserver: str,
        registration: Registration,
        namespaces: Namespaces,
        database: Database,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._session = session
        self._homeserver = homeserver
        self._token = registration.secrets.as_token
        self._namespaces = namespaces
        self._database = database
        self._now_ms = now_ms
        self._making: SingleFlight[str, None] = SingleFlight()

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
        return await self._database.look(partial(is_user, user_id=user))

    async def _make(self, user: str) -> None:
        heard = await ask(
            self._session, "POST", self._homeserver + REGISTER, self._token, register_body(user)
        )
        # One that is there and is not in our database was made before a process was killed, or by whoever
        # had this name for its node before: it is in our namespace, so that it is ours.
        wrong = wrong_register(heard, user, self._namespaces)
        if wrong is not None:
            if isinstance(heard, NoAnswer) or heard.status >= 500 or heard.status == 429:
                # Later it may be another answer.
                raise MatrixError("M_UNKNOWN", wrong, 502)
            raise MatrixError(heard.errcode if heard.errcode.startswith("M_") else "M_UNKNOWN", wrong)
        # After the homeserver has made it: what is written down here is there.
        async with self._database.transaction() as connection:
            await insert_user(connection, user, self._now_ms())
