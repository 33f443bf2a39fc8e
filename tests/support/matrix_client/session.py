"""A user's session, on which the chapters of the client build."""

import itertools
import secrets
from collections.abc import Mapping
from typing import Any

from tests.support.matrix_client.homeserver import Homeserver, Json, path


class Session:
    def __init__(self, homeserver: Homeserver, user_id: str, access_token: str, device_id: str | None) -> None:
        self.homeserver = homeserver
        self.user_id = user_id
        self.access_token = access_token
        self.device_id = device_id
        self._start = secrets.token_hex(4)
        self._count = itertools.count()

    @property
    def server_name(self) -> str:
        return self.user_id.partition(":")[2]

    async def call(
        self, method: str, template: str, *segments: str, query: Mapping[str, Any] | None = None, json: Any = None
    ) -> Json:
        """Send any request of the client-server API: `call("GET", "v3/rooms/{}/state", room_id)`."""
        # Synapse wants a body on every PUT and POST.
        body = {} if json is None and method in {"PUT", "POST"} else json
        where = path("/_matrix/client/" + template, *segments)
        return await self.homeserver.request(method, where, token=self.access_token, query=query, json=body)

    def new_txn_id(self) -> str:
        return f"{self._start}-{next(self._count)}"
