"""What the homeserver is answered when somebody looks for an agent or a room that it does not know yet."""

from collections.abc import Awaitable, Callable

from appservice.namespaces import AgentRoom, Namespaces
from appservice.service.ghosts import GhostUsers


class AgentsAndRooms:
    """Satisfies `appservice.wire.services.Inhabitants`. `is_agent` and `is_room` are the node's word on who
    and what there is; `make_room` lets there be a room, and its alias lead there."""

    def __init__(
        self,
        namespaces: Namespaces,
        ghosts: GhostUsers,
        *,
        is_agent: Callable[[str, str], bool],
        is_room: Callable[[AgentRoom], Awaitable[bool]],
        make_room: Callable[[AgentRoom], Awaitable[None]],
    ) -> None:
        self._namespaces = namespaces
        self._ghosts = ghosts
        self._is_agent = is_agent
        self._is_room = is_room
        self._make_room = make_room

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        user = self._namespaces.user(agent_id, node_id)
        if user is None or not self._is_agent(agent_id, node_id):
            return False
        await self._ghosts.ensure_user(user)
        return True

    async def provide_room(self, room: AgentRoom) -> bool:
        if not await self._is_room(room):
            return False
        await self._make_room(room)
        return True

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return self._is_agent(agent_id, node_id)

    async def knows_room(self, room: AgentRoom) -> bool:
        return await self._is_room(room)
