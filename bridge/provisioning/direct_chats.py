"""The chat of a person and an agent: made when the person asks for it, and found again from then on."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final, NamedTuple

from appservice.people.send_as_person import Speaking
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

MOST_LOOKED_AT: Final = 500
"""Rooms of an agent that are looked at for one that the person has made."""
_THERE: Final = ("join", "invite")


class Chat(NamedTuple):
    room_id: str
    is_new: bool


class DirectChats:
    """`speaks`: a person who lets the node do so is brought into the chat at once. `is_of_agents` is true of
    rooms of agents, which are no chats."""

    def __init__(
        self,
        side: MatrixBackend,
        database: Database,
        ghosts: Ghosts,
        names: GhostNames,
        *,
        speaks: Speaking | None = None,
        is_of_agents: Callable[[str], bool] = lambda room_id: False,
        report: Report = lambda sentence, error: None,
    ) -> None:
        self._side = side
        self._database = database
        self._ghosts = ghosts
        self._names = names
        self._speaks = speaks
        self._is_of_agents = is_of_agents
        self._report = report
        self._making: SingleFlight[tuple[str, AgentAddress], Chat] = SingleFlight()

    async def close(self) -> None:
        await self._making.close()

    async def known(self, person: str, agents: Collection[AgentAddress]) -> Mapping[AgentAddress, str]:
        """Those that were made or found before, without a look at whether the person is still there."""
        rows = await self._database.read(
            partial(fetch_chats, user_id=person, agents=[str(address) for address in agents])
        )
        return {address: rows[str(address)] for address in agents if str(address) in rows}

    async def provide(self, person: str, address: AgentAddress) -> Chat:
        """The person is invited into it, if not there already. Raises `MatrixError`."""
        return await self._making.run((person, address), partial(self._provide, person, address))

    async def _provide(self, person: str, address: AgentAddress) -> Chat:
        ghost = self._names.ghost(address)
        if ghost is None or isinstance(ghost, NoGhost):
            reason = "It is a user of another homeserver." if ghost is None else ghost.reason
            raise MatrixError("M_NOT_FOUND", reason, 404)
        await self._ghosts.appear(ghost)
        before = await self._database.read(partial(fetch_chat, user_id=person, agent=str(address)))
        if before is not None and await self._membership(before, ghost) == "join":
            await self._invite(before, ghost, person)
            return Chat(before, False)
        room_id = await self._made_by_person(person, ghost)
        is_new = room_id is None
        if room_id is None:
            request = CreateRoomRequest(
                creator=ghost,
                preset="trusted_private_chat",
                is_direct=True,
                # After a kill it is found by it. What was before is over, if the agent is not there any more.
                key=f"chat/{person}/{before or ''}",
                invite=(person,),
            )
            room_id = (await self._side.create_room(request)).room_id
        async with self._database.autocommit() as connection:
            await upsert_chat(connection, person, str(address), room_id)
        await self._invite(room_id, ghost, person)
        return Chat(room_id, is_new)

    async def _invite(self, room_id: str, ghost: str, person: str) -> None:
        """Who has left comes back at his own wish."""
        membership = await self._membership(room_id, person)
        if membership == "join":
            return
        if membership != "invite":
            await self._side.invite(room_id, ghost, person)
        if self._speaks is None or not await self._speaks.can_speak_for(person):
            return
        try:
            await self._speaks.come_in(room_id, person)
        except MatrixError as refused:
            # The invite is there all the same.
            self._report(f"{person} could not be brought into the chat {room_id}.", refused)

    async def _made_by_person(self, person: str, ghost: str) -> str | None:
        """A chat of two that the person has begun by an invite."""
        for room_id in list(await self._side.joined_rooms(ghost))[:MOST_LOOKED_AT]:
            if self._is_of_agents(room_id) or await self._membership(room_id, person) != "join":
                continue
            members = await self._side.members(room_id, _THERE)
            if {member.user_id for member in members} == {ghost, person}:
                return room_id
        return None

    async def _membership(self, room_id: str, user: str) -> str | None:
        try:
            return await self._side.membership(room_id, user)
        except MatrixError:
            # Nobody of ours is there any more.
            return None
