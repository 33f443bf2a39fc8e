"""What the endpoints have to be given, and what each of them begins with."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import hdrs, web

from appservice import credentials
from appservice.namespaces import AgentRoom, Namespaces
from appservice.transaction import Transaction

V1 = "/_matrix/app/v1"
UNSTABLE = "/_matrix/app/unstable"
"""Of `thirdparty` alone. The other paths had no prefix at all before; homeservers fall back to both."""


class TakesIn(Protocol):
    async def take_in(self, transaction_id: str, transaction: Transaction) -> bool:
        """When it returns, all of it has been committed; whether anything was new. Raises `MatrixError`."""
        ...


class Inhabitants(Protocol):
    """Who there is, and which rooms; what is asked for is made."""

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        """Whether there is such an agent. When it returns, the homeserver knows its ghost."""
        ...

    async def provide_room(self, room: AgentRoom) -> bool:
        """Whether this node has such a room. When it returns, the alias leads there."""
        ...

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        """Whether there is one. Nothing is made."""
        ...

    async def knows_room(self, room: AgentRoom) -> bool: ...


@dataclass(frozen=True, slots=True)
class AppServices:
    """`pinged` is told of each ping that the homeserver brought, with the id that whoever asked for it
    gave; `came_by` of the connection by which each transaction comes. `is_ready` says it of the whole node,
    and is quick."""

    hs_token: str = field(repr=False)
    namespaces: Namespaces
    intake: TakesIn
    inhabitants: Inhabitants
    pinged: Callable[[str | None], None] = lambda transaction_id: None
    is_ready: Callable[[], bool] = lambda: True
    came_by: Callable[[Hashable], None] = lambda connection: None


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
