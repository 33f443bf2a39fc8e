"""What a guest answers when its homeserver asks for an agent or a room that it does not know yet."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from appservice.namespaces import AgentRoom
from bridge.address import AgentAddress
from bridge.service.matrix_carrier import Inhabited
from federation.errors import MatrixError

AGENTS: Final = "agents"
OFFICE: Final = "office"
"""The kinds of rooms that a guest has: in the others nodes exchange agents that are homeservers."""


class GuestInhabitants:
    """What `appservice.service.inhabitants.AgentsAndRooms` is given. `put_up` lets rooms say that they are
    bridges, by namespace."""

    def __init__(self, node: Inhabited, put_up: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
        self._node = node
        self._put_up = put_up
        self._making: set[str] = set()

    def is_agent(self, agent_id: str, node_id: str) -> bool:
        address = AgentAddress.of(agent_id, node_id)
        return isinstance(address, AgentAddress) and self._node.is_agent(address)

    async def is_room(self, room: AgentRoom) -> bool:
        if room.kind == OFFICE:
            return await self._node.has_office(_localpart(room))
        return room.kind == AGENTS and self._node.has_room(room.namespace)

    async def make_room(self, room: AgentRoom) -> None:
        if room.kind == OFFICE:
            # Who joins an office makes its room. What may be missing is its name.
            await self._node.lead_to_office(_localpart(room))
            return
        # To make a room the homeserver is asked where its alias leads, and asks us in its turn: whoever let
        # that wait for the room would wait for himself.
        if room.namespace in self._making:
            raise MatrixError("M_NOT_FOUND", "This room is only just being made.", 404)
        self._making.add(room.namespace)
        try:
            is_there = await self._node.provide_room(room.namespace)
        finally:
            self._making.discard(room.namespace)
        if not is_there:
            raise MatrixError("M_UNKNOWN", "This room could not be made.", 502)
        await self._put_up({room.namespace: self._node.rooms()[room.namespace]})


def _localpart(room: AgentRoom) -> str:
    """Of an office's alias."""
    return f"{OFFICE}-{room.namespace}"
