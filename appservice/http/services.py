"""The state that the endpoints share, and the authentication that each begins with."""

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
    from appservice.appservice import MonitoredIntake
    from appservice.intake.intake import Intake

V1 = "/_matrix/app/v1"
UNSTABLE = "/_matrix/app/unstable"
"""Only for `thirdparty`. The other paths had no prefix before v1; homeservers fall back to both."""


class AgentQueries:
    """Answers the homeserver's queries for agents and rooms. `is_agent` and `is_room` decide whether the node
    has one; `make_room` creates a room and its alias."""

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
        """Whether the agent exists. On return its ghost is registered with the homeserver."""
        user = self._namespaces.user(agent_id, node_id)
        if user is None or not self._is_agent(agent_id, node_id):
            return False
        await self._ghosts.ensure_user(user)
        return True

    async def provide_room(self, room: AgentRoom) -> bool:
        """Whether this node has the room. On return the alias resolves to it."""
        if not await self._is_room(room):
            return False
        await self._make_room(room)
        return True

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return self._is_agent(agent_id, node_id)

    async def knows_room(self, room: AgentRoom) -> bool:
        return await self._is_room(room)


@dataclass(slots=True)
class EndpointServices:
    """`intake` and `queries` are None until the node has started: until then requests get a 503, and
    `has_refused` records that. `ping_received` receives the id of each ping from the homeserver,
    `connection_used` the connection of each transaction, `room_queried` the name of a room that the
    homeserver asks for before `queries` is set. `is_ready` covers the whole node and must be fast."""

    hs_token: str = field(repr=False)
    namespaces: Namespaces
    intake: "Intake | MonitoredIntake | None" = None
    queries: AgentQueries | None = None
    ping_received: Callable[[str | None], None] = lambda transaction_id: None
    is_ready: Callable[[], bool] = lambda: True
    connection_used: Callable[[Hashable], None] = lambda connection: None
    room_queried: Callable[[str], None] = lambda name: None
    has_refused: bool = False

    async def receive(self, transaction_id: str, transaction: Transaction) -> None:
        """On return the whole transaction is committed."""
        if self.intake is None:
            self.has_refused = True
            raise _not_yet()
        await self.intake.receive(transaction_id, transaction)

    def require_queries(self) -> AgentQueries:
        if self.queries is None:
            raise _not_yet()
        return self.queries


def _not_yet() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This node is still starting: try again.", 503)


SERVICES = web.AppKey("SERVICES", EndpointServices)


def begin(request: web.Request) -> EndpointServices:
    """Authenticate the homeserver and return the services. Raises `MatrixError`."""
    services = request.app[SERVICES]
    credentials.check(
        request.headers.getall(hdrs.AUTHORIZATION, []), request.query.getall("access_token", []), services.hs_token
    )
    return services
