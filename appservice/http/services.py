"""What the endpoints have to be given, and what each of them begins with."""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import hdrs, web

from appservice.intake.transaction import Transaction
from appservice.people.ghosts import GhostUsers
from appservice.registration import tokens as credentials
from appservice.registration.namespaces import AgentRoom, Namespaces
from federation.matrix.errors import MatrixError

if TYPE_CHECKING:
    from appservice.appservice import WatchedIntake
    from appservice.intake.intake import Intake

V1 = "/_matrix/app/v1"
UNSTABLE = "/_matrix/app/unstable"
"""Of `thirdparty` alone. The other paths had no prefix at all before; homeservers fall back to both."""


class AgentsAndRooms:
    """The agents and rooms that the homeserver can ask for. `is_agent` and `is_room` say which the node has;
    `make_room` creates a room and its alias."""

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
        """Whether there is such an agent. When it returns, the homeserver knows its ghost."""
        user = self._namespaces.user(agent_id, node_id)
        if user is None or not self._is_agent(agent_id, node_id):
            return False
        await self._ghosts.ensure_user(user)
        return True

    async def provide_room(self, room: AgentRoom) -> bool:
        """Whether this node has such a room. When it returns, the alias leads there."""
        if not await self._is_room(room):
            return False
        await self._make_room(room)
        return True

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return self._is_agent(agent_id, node_id)

    async def knows_room(self, room: AgentRoom) -> bool:
        return await self._is_room(room)


@dataclass(slots=True)
class AppServices:
    """`intake` and `queries` are None until the node works: the homeserver is told to come again, and
    `has_refused` notes that it was. `pinged` gets the id of each ping that the homeserver brought, `came_by`
    the connection of each transaction, `room_asked` the name of a room that was asked for before there were
    queries. `is_ready` is about the whole node, and is quick."""

    hs_token: str = field(repr=False)
    namespaces: Namespaces
    intake: "Intake | WatchedIntake | None" = None
    queries: AgentsAndRooms | None = None
    pinged: Callable[[str | None], None] = lambda transaction_id: None
    is_ready: Callable[[], bool] = lambda: True
    came_by: Callable[[Hashable], None] = lambda connection: None
    room_asked: Callable[[str], None] = lambda name: None
    has_refused: bool = False

    async def take_in(self, transaction_id: str, transaction: Transaction) -> None:
        """When it returns, all of it has been committed."""
        if self.intake is None:
            self.has_refused = True
            raise _not_yet()
        await self.intake.take_in(transaction_id, transaction)

    def known(self) -> AgentsAndRooms:
        if self.queries is None:
            raise _not_yet()
        return self.queries


def _not_yet() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This node does not work yet: come again.", 503)


SERVICES = web.AppKey("SERVICES", AppServices)


def begin(request: web.Request) -> AppServices:
    """Who answers, once it is known that the homeserver asks. Raises `MatrixError`."""
    services = request.app[SERVICES]
    credentials.check(
        request.headers.getall(hdrs.AUTHORIZATION, []),
        request.query.getall("access_token", []),
        services.hs_token,
    )
    return services
