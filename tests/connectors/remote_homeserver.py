"""Another homeserver in the same process, and people with accounts there."""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from federation.directory.public_rooms import from_body
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest, InitialState
from federation.transactions.edu_dispatcher import EduUpdate, edu_type
from tests.federation.local_users.homes import Home
from tests.support.driven_node.program import encoded, plain
from tests.support.driven_node.resident import Resident
from tests.support.matrix_client import Refused
from tests.support.matrix_client.seen import Seen
from tests.support.matrix_client.waiting import TIMEOUT, T

STREAM = "what the remote_server see"


@dataclass
class RemoteHomeserver:
    """Implements `tests.support.driven_node.resident.LivesOn` with direct calls instead of lines."""

    home: Home
    seen: Seen = field(default_factory=Seen)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def server_name(self) -> str:
        return self.home.name

    async def person(self, name: str) -> Resident:
        return Resident(self, await self.home.user(name))

    # -- actions --

    async def call(self, operation: str, /, **arguments: Any) -> Any:
        """The result as JSON. A refusal raises `Refused`."""
        asked = getattr(self, f"_{operation}", None) or getattr(self.home.rooms, operation)
        try:
            return plain(await asked(**arguments))
        except MatrixError as error:
            raise Refused(error.status, {"errcode": error.errcode, "error": error.text}, operation) from error

    async def _create_room(self, *, initial_state: Sequence[Mapping[str, Any]] = (), **request: Any) -> Any:
        state = [InitialState(**one) for one in initial_state]
        return await self.home.rooms.create_room(CreateRoomRequest(initial_state=state, **request))

    async def _upload(self, user: str, content: str, content_type: str, file_name: str | None) -> str:
        info = await self.home.rooms.upload(user, base64.b64decode(content), content_type, file_name)
        return str(info.mxc)

    async def _download(self, mxc: str) -> Any:
        async with self.home.rooms.download(mxc) as opened:
            return {"info": opened.info, "content": await encoded(opened.chunks)}

    async def _public_rooms(self, server: str, search: str | None) -> Any:
        asked = {} if search is None else {"filter": {"generic_search_term": search}}
        return await self.home.homeserver.public_rooms.remote(server, from_body(asked, remote=True))

    async def _hierarchy(self, **asked: Any) -> Any:
        return await self.home.homeserver.spaces.hierarchy(**asked)

    # -- received events --

    async def look(self) -> None:
        """Runs until it is cancelled."""
        rooms = self.home.rooms
        for told in ("m.typing", "m.receipt", "m.presence"):
            rooms.listen(told, self._hear)
        async with rooms.subscription(STREAM) as subscription:
            while True:
                entries = await subscription.next()
                for entry in entries:
                    event = {name: one for name, one in plain(entry.event).items() if one is not None}
                    room_id = event["room_id"]
                    if entry.kind == "invite":
                        self.seen.invited[room_id] = list(plain(entry.invite_state))
                    elif entry.kind == "timeline":
                        await self._see_invite(event)
                        # An invite remains open although other local users are in the room.
                        self.seen._add_room(room_id, {"timeline": {"events": [event]}})
                self._changed.set()
                async with self.home.database.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)

    async def _see_invite(self, event: Mapping[str, Any]) -> None:
        """In a room with other local members, who receive it as a normal event."""
        is_of_here = str(event.get("state_key", "")).endswith(f":{self.server_name}")
        if event["content"].get("membership") == "invite" and is_of_here:
            room_id = event["room_id"]
            self.seen.invited[room_id] = plain(await self.home.rooms.state(room_id))

    def _hear(self, said: EduUpdate) -> None:
        told = plain(said)
        match edu_type(said):
            case "m.typing":
                self.seen.typing[told["room_id"]] = set(told["user_ids"])
            case "m.receipt":
                self.seen.read[told["room_id"]][told["user_id"]] = told["event_id"]
            case "m.presence":
                self.seen.presence[told["user_id"]] = told
        self._changed.set()

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Wait until the condition returns a true value for everything received so far; return that value."""
        try:
            async with asyncio.timeout(deadline):
                while True:
                    self._changed.clear()
                    if found := condition(self.seen):
                        return found
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"{self.server_name} did not see it in {deadline} s") from None
