"""What the handlers of the interface work with, and who may call them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import hdrs, web

from bridge.agents.attached.attached import AttachedAgents
from bridge.agents.attached.tokens import AgentTokens, Holder, Token, read_bearer
from bridge.agents.attached.work import AttachedWork
from bridge.agents.routing_table import RoutingTable
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network, read_address
from federation.peers.limits import Buckets, Rate

OF_AGENT: Final = Rate(500, 5_000)
"""Calls. A task of a moment takes three of them."""
FAILURES: Final = Rate(2, 100)
"""Requests without a good token, from one address."""
MOST_TOLD_APART: Final = 20_000


@dataclass(frozen=True, slots=True)
class ApiLimits:
    of_agent: Rate = OF_AGENT
    failures: Rate = FAILURES
    # Addresses behind which many programs stand: not limited as one.
    shared_addresses: tuple[Network, ...] = LOOPBACK


@dataclass(slots=True)
class AgentServices:
    tokens: AgentTokens
    agents: AttachedAgents
    work: AttachedWork
    routes: RoutingTable
    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    limits: ApiLimits = field(default_factory=ApiLimits)
    _of_agents: Buckets[str] = field(default_factory=lambda: Buckets(MOST_TOLD_APART))
    _failures: Buckets[Network] = field(default_factory=lambda: Buckets(MOST_TOLD_APART))

    async def authenticate(self, request: web.Request) -> tuple[Token, Holder]:
        """Raises `MatrixError` unless the request bears a good token of the agent that it names."""
        address = _address(request.remote)
        is_counted = address is not None and not is_within(address, self.limits.shared_addresses)
        if address is not None and is_counted:
            excess = self._failures.take(limited_network(address), self.limits.failures, self.monotonic())
            if excess is not None:
                sentence = "Too many requests from your address had no good token."
                raise limit_exceeded(sentence, 429, excess.retry_after_ms)
        token = read_bearer(request.headers.getall(hdrs.AUTHORIZATION, []))
        holder = None if token is None else await self.tokens.holder(token)
        if token is None or holder is None:
            words = "There is no token." if token is None else "The token is not known, or not good any more."
            raise MatrixError("M_UNKNOWN_TOKEN", words, 401)
        if address is not None and is_counted:
            self._failures.give_back(limited_network(address), self.limits.failures)
        if holder.agent_id != request.match_info["agent_id"]:
            raise MatrixError("M_FORBIDDEN", "The token is another agent's.", 403)
        return token, holder

    def admit(self, agent_id: str) -> None:
        """One more call. Raises `MatrixError` when that is too much."""
        excess = self._of_agents.take(agent_id, self.limits.of_agent, self.monotonic())
        if excess is not None:
            raise limit_exceeded("The agent calls too often.", 429, excess.retry_after_ms)


SERVICES: Final = web.AppKey("AGENT_SERVICES", AgentServices)


def _address(remote: str | None) -> Address | None:
    """None when the connection is gone, or has no address, as a Unix socket."""
    try:
        return read_address(remote) if remote else None
    except ValueError:
        return None
