"""The list of published rooms: of this server, for its users and for other servers; and of other servers."""

from typing import Any, Final

from federation.errors import MatrixError
from federation.peer_errors import PeerMalformed
from federation.public_rooms import Question, body_of, is_listed, is_search, page, query_of, read_page
from federation.request_target import request_target
from federation.room_summary import RoomSummary
from federation.service.client import FederationClient
from federation.service.room_summaries import RoomSummaries
from storage.aliases import list_published_rooms
from storage.database import Database

PATH: Final = "/_matrix/federation/v1/publicRooms"


class PublicRooms:
    """`public_rooms_over_federation`: whether other servers are answered."""

    def __init__(
        self,
        database: Database,
        client: FederationClient,
        summaries: RoomSummaries,
        *,
        public_rooms_over_federation: bool = True,
    ) -> None:
        self._database = database
        self._client = client
        self._summaries = summaries
        self._over_federation = public_rooms_over_federation

    async def local(self, question: Question) -> dict[str, Any]:
        """The list of this server, for its users."""
        return page(await self._published(None), question)

    async def answer(self, origin: str, question: Question) -> dict[str, Any]:
        """The same for another server."""
        if not self._over_federation:
            raise MatrixError("M_FORBIDDEN", "This server shows its list of rooms to its users alone.", 403)
        return page(await self._published(origin), question)

    async def remote(self, server: str, question: Question) -> dict[str, Any]:
        """The list of another server. Raises `PeerError`. The question was read as one for `elsewhere`."""
        if is_search(question):
            answer = await self._client.request("POST", server, request_target(PATH), body_of(question))
        else:
            answer = await self._client.request("GET", server, request_target(PATH, query=query_of(question)))
        read = read_page(answer)
        if read is None:
            raise PeerMalformed(server, "answered with something that is no list of rooms")
        return read

    async def _published(self, asker: str | None) -> list[RoomSummary]:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await list_published_rooms(connection)
        rooms = await self._summaries.of_all(room_ids)
        return [room for room in rooms.values() if is_listed(room, asker)]
