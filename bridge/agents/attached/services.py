"""What the handlers need, and the authentication of programs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import hdrs, web

from bridge.agents.attached.attached import AttachedAgents
from bridge.agents.attached.tokens import AgentTokens, Token, TokenOwner, parse_bearer
from bridge.agents.attached.work import AttachedWork
from bridge.agents.routing_table import RoutingTable
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.networks import LOOPBACK, Address, Network, is_within, limited_network, read_address
from federation.peers.limits import Buckets, Rate

AGENT_RATE: Final = Rate(500, 5_000)
"""Calls per second and in a burst. A very short task takes three calls."""
FAILED_AUTH_RATE: Final = Rate(2, 100)
"""Requests without a valid token, per address."""
MAX_RATE_BUCKETS: Final = 20_000


@dataclass(frozen=True, slots=True)
class ApiLimits:
    of_agent: Rate = AGENT_RATE
    failures: Rate = FAILED_AUTH_RATE
    # Addresses that many programs share. They have no common limit.
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
    _of_agents: Buckets[str] = field(default_factory=lambda: Buckets(MAX_RATE_BUCKETS))
    _failures: Buckets[Network] = field(default_factory=lambda: Buckets(MAX_RATE_BUCKETS))

    async def authenticate(self, request: web.Request) -> tuple[Token, TokenOwner]:
        """Return the token of a request and its owner. Raises `MatrixError` unless the token is valid and
        belongs to the agent in the path."""
        address = _address(request.remote)
        is_counted = address is not None and not is_within(address, self.limits.shared_addresses)
        if address is not None and is_counted:
            excess = self._failures.take(limited_network(address), self.limits.failures, self.monotonic())
            if excess is not None:
                sentence = "Too many requests from your address had no valid token."
                raise limit_exceeded(sentence, 429, excess.retry_after_ms)
        token = parse_bearer(request.headers.getall(hdrs.AUTHORIZATION, []))
        owner = None if token is None else await self.tokens.owner_of(token)
        if token is None or owner is None:
            sentence = "There is no token." if token is None else "The token is unknown, expired or revoked."
            raise MatrixError("M_UNKNOWN_TOKEN", sentence, 401)
        if address is not None and is_counted:
            self._failures.give_back(limited_network(address), self.limits.failures)
        if owner.agent_id != request.match_info["agent_id"]:
            raise MatrixError("M_FORBIDDEN", "The token belongs to another agent.", 403)
        return token, owner

    def admit(self, agent_id: str) -> None:
        """Count a call of the agent. Raises `MatrixError` if it makes too many."""
        excess = self._of_agents.take(agent_id, self.limits.of_agent, self.monotonic())
        if excess is not None:
            raise limit_exceeded("The agent makes too many calls.", 429, excess.retry_after_ms)


SERVICES: Final = web.AppKey("AGENT_SERVICES", AgentServices)


def _address(remote: str | None) -> Address | None:
    """The address of a connection; None if it was closed or has none, as with a Unix socket."""
    try:
        return read_address(remote) if remote else None
    except ValueError:
        return None
