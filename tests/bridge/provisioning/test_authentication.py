"""Authentication."""

from bridge.provisioning.authorization import OWNER_CACHE_SECONDS, Limits
from federation.peers.limits import Rate
from tests.bridge.people.service.running_node import ALICE, BOB, THERE, Servers
from tests.bridge.provisioning.bridge_manager import SECRET, manager, quoted


async def test_owner_is_cached_for_a_minute(servers: Servers) -> None:
    """Afterwards a revoked token is refused."""
    async with manager(servers) as one:
        for _ in range(3):
            await one.get("logins")
        assert one.accounts.asked == 1
        del one.accounts.tokens["of-alice"]
        one.clock[0] = OWNER_CACHE_SECONDS
        assert await one.refused("GET", "logins") == (401, "M_UNKNOWN_TOKEN")


async def test_refused_requests(servers: Servers) -> None:
    """Unknown tokens, users of other servers, and people without permission."""
    async with manager(servers) as one:
        assert await one.refused("GET", "logins", token=None) == (401, "M_MISSING_TOKEN")
        assert await one.refused("GET", "logins", token="guessed") == (401, "M_UNKNOWN_TOKEN")
        assert await one.refused("GET", "logins", token="openid:guessed") == (401, "M_UNKNOWN_TOKEN")
        for token in ("of-a-ghost", "of-another", "of-eve"):
            assert await one.refused("GET", "logins", token=token) == (403, "M_FORBIDDEN")
        assert await one.refused("POST", "login/start/access_token", token="of-bob") == (403, "M_FORBIDDEN")


async def test_user_id_in_the_query(servers: Servers) -> None:
    """It has to equal the token's owner."""
    async with manager(servers) as one:
        await one.get("logins", query=f"?user_id={quoted(ALICE)}")
        of_bob = f"?user_id={quoted(BOB)}"
        assert await one.refused("GET", "logins", query=of_bob) == (403, "M_FORBIDDEN")
        # Also if it is the first request with the token.
        assert await one.refused("GET", "logins", token="of-alice-too", query=of_bob) == (403, "M_FORBIDDEN")


async def test_openid_token(servers: Servers) -> None:
    """Only of the own homeserver; others are not asked."""
    async with manager(servers) as one:
        await one.get("logins", token="openid:who-alice-is")
        # It is not an access token.
        assert await one.refused("GET", "logins", token="who-alice-is") == (401, "M_UNKNOWN_TOKEN")
        asked = one.accounts.asked
        elsewhere = f"?user_id={quoted('@alice:another.test')}"
        said = await one.refused("GET", "logins", token="openid:other", query=elsewhere)
        assert said == (403, "M_FORBIDDEN")
        assert one.accounts.asked == asked


async def test_shared_secret(servers: Servers) -> None:
    """Acts as any person of the homeserver, with that person's permissions. Without a configured secret, none
    is accepted."""
    async with manager(servers) as one:
        await one.get("logins", token=SECRET, query=f"?user_id={quoted(BOB)}")
        assert one.accounts.asked == 0
        assert await one.refused("GET", "logins", token=SECRET) == (400, "M_MISSING_PARAM")
        for user in (f"@eve:{THERE}", f"@_agent_worker-1:{THERE}", "@alice:another.test", "alice", ""):
            said = await one.refused("GET", "logins", token=SECRET, query=f"?user_id={quoted(user)}")
            assert said == (403, "M_FORBIDDEN")
    await servers.stop_node(one.node)
    async with manager(servers, secret=None) as one:
        said = await one.refused("GET", "logins", token=SECRET, query=f"?user_id={quoted(BOB)}")
        assert said == (401, "M_UNKNOWN_TOKEN")


async def test_unknown_tokens_are_rate_limited(servers: Servers) -> None:
    """Valid tokens do not count."""
    limits = Limits(behind_proxy=Rate(0.1, 3))
    async with manager(servers, limits=limits) as one:
        for number in range(3):
            said = await one.refused("GET", "logins", token=f"guess-{number}")
            assert said == (401, "M_UNKNOWN_TOKEN")
        assert await one.refused("GET", "logins", token="guess-4") == (429, "M_LIMIT_EXCEEDED")
        one.clock[0] = 1_000.0
        for _ in range(10):
            one.clock[0] += OWNER_CACHE_SECONDS + 1
            await one.get("logins")
    await servers.stop_node(one.node)
    async with manager(servers, limits=Limits(per_person=Rate(0.1, 2))) as one:
        for _ in range(2):
            await one.get("logins")
        assert await one.refused("GET", "logins") == (429, "M_LIMIT_EXCEEDED")
        await one.get("logins", token="of-bob")


async def test_unavailable_homeserver(servers: Servers) -> None:
    """The response is 503, not a refusal."""
    async with manager(servers) as one:
        one.accounts.status = 502
        assert await one.refused("GET", "logins") == (503, "M_UNKNOWN")
        one.accounts.status = 200
        await one.get("logins")
