"""Direct chats of a person with an agent: created on request and reused afterwards."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from appservice.people.send_as_person import PersonSender
from bridge.agents.address import AgentAddress
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames, NoGhost
from bridge.matrix.ghosts import Ghosts
from bridge.observability.report import Report
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest
from storage.concurrency import SingleFlight
from storage.database import Database
from storage.people.direct_chats import fetch_chat, fetch_chats, upsert_chat

MAX_ROOMS_SCANNED: Final = 500
"""Rooms of an agent that are searched for a chat that the person has started."""
_PRESENT: Final = ("join", "invite")


class Chat(NamedTuple):
    room_id: str
    is_new: bool


class DirectChats:
    """`person_sender`: joins a person who has allowed it to the chat at once. `is_of_agents` tells rooms of
    agents, which are not chats."""

    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        ghosts: Ghosts,
        names: GhostNames,
        *,
        person_sender: PersonSender | None = None,
        is_of_agents: Callable[[str], bool] = lambda room_id: False,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._side = side
        self._database = database
        self._ghosts = ghosts
        self._names = names
        self._person_sender = person_sender
        self._is_of_agents = is_of_agents
        self._report = report
        self._creating: SingleFlight[tuple[str, AgentAddress], Chat] = SingleFlight()

    async def close(self) -> None:
        await self._creating.close()

    async def known_chats(self, person: str, agents: Collection[AgentAddress]) -> Mapping[AgentAddress, str]:
        """Chats that were created or found before, whether or not the person is still in them."""
        rows = await self._database.read(
            partial(fetch_chats, user_id=person, agents=[str(address) for address in agents])
        )
        return {address: rows[str(address)] for address in agents if str(address) in rows}

    async def get_or_create(self, person: str, address: AgentAddress) -> Chat:
        """Return the chat; the person is invited if necessary. Raises `MatrixError`."""
        return await self._creating.run((person, address), partial(self._get_or_create, person, address))

    async def _get_or_create(self, person: str, address: AgentAddress) -> Chat:
        ghost = self._names.ghost(address)
        if ghost is None or isinstance(ghost, NoGhost):
            reason = "The agent is a user of another homeserver." if ghost is None else ghost.reason
            raise MatrixError("M_NOT_FOUND", reason, 404)
        await self._ghosts.ensure(ghost)
        before = await self._database.read(partial(fetch_chat, user_id=person, agent=str(address)))
        if before is not None and await self._membership(before, ghost) == "join":
            await self._invite(before, ghost, person)
            return Chat(before, False)
        room_id = await self._find_chat_started_by(person, ghost)
        is_new = room_id is None
        if room_id is None:
            request = CreateRoomRequest(
                creator=ghost,
                preset="trusted_private_chat",
                is_direct=True,
                # The key makes the creation idempotent after a kill. It contains the previous chat, which
                # ended when the agent left it.
                key=f"chat/{person}/{before or ''}",
                invite=(person,),
            )
            room_id = (await self._side.create_room(request)).room_id
        async with self._database.autocommit() as connection:
            await upsert_chat(connection, person, str(address), room_id)
        await self._invite(room_id, ghost, person)
        return Chat(room_id, is_new)

    async def _invite(self, room_id: str, ghost: str, person: str) -> None:
        """A person who has left is invited again, because the person asked for the chat."""
        membership = await self._membership(room_id, person)
        if membership == "join":
            return
        if membership != "invite":
            await self._side.invite(room_id, ghost, person)
        if self._person_sender is None or not await self._person_sender.can_send_as(person):
            return
        try:
            await self._person_sender.join_as(room_id, person)
        except MatrixError as refused:
            # The invite remains valid.
            self._report(f"Failed to join {person} to the chat {room_id}.", refused)

    async def _find_chat_started_by(self, person: str, ghost: str) -> str | None:
        """A room of only the two that the person created by inviting the agent."""
        for room_id in list(await self._side.joined_rooms(ghost))[:MAX_ROOMS_SCANNED]:
            if self._is_of_agents(room_id) or await self._membership(room_id, person) != "join":
                continue
            members = await self._side.members(room_id, _PRESENT)
            if {member.user_id for member in members} == {ghost, person}:
                return room_id
        return None

    async def _membership(self, room_id: str, user: str) -> str | None:
        try:
            return await self._side.membership(room_id, user)
        except MatrixError:
            # No local user is in the room any more.
            return None
