"""The client: all chapters in one class, with login and registration."""

from typing import Self

from tests.support.matrix_client.directory import Directory
from tests.support.matrix_client.ephemeral import Ephemeral
from tests.support.matrix_client.events import Events
from tests.support.matrix_client.homeserver import Homeserver, Json
from tests.support.matrix_client.media import Medias
from tests.support.matrix_client.rooms import Rooms
from tests.support.matrix_client.syncing import Syncing

PASSWORD = "secret"


class MatrixClient(Rooms, Events, Ephemeral, Directory, Medias, Syncing):
    """A session of a user. It holds no connection: the homeserver object does."""

    @classmethod
    def from_login(cls, homeserver: Homeserver, answer: Json) -> Self:
        """Create a client from the response to a login or a registration."""
        return cls(homeserver, answer["user_id"], answer["access_token"], answer.get("device_id"))

    @classmethod
    async def register(cls, homeserver: Homeserver, localpart: str, *, password: str = PASSWORD) -> Self:
        """Register a new account on a homeserver with open registration."""
        body = {"username": localpart, "password": password, "auth": {"type": "m.login.dummy"}}
        answer = await homeserver.request("POST", "/_matrix/client/v3/register", json=body)
        return cls.from_login(homeserver, answer)

    @classmethod
    async def login(cls, homeserver: Homeserver, localpart: str, *, password: str = PASSWORD) -> Self:
        """Create another session of an account."""
        body = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": localpart},
            "password": password,
        }
        answer = await homeserver.request("POST", "/_matrix/client/v3/login", json=body)
        return cls.from_login(homeserver, answer)

    async def whoami(self) -> Json:
        return await self.call("GET", "v3/account/whoami")

    async def log_out(self) -> None:
        await self.call("POST", "v3/logout")
