"""Authentication."""

from bridge.provisioning.authorization import OWNER_CACHE_SECONDS, Limits
from federation.peers.limits import Rate
from tests.bridge.people.service.scene import ALICE, BOB, THERE, Stage
from tests.bridge.provisioning.bridge_manager import SECRET, manager, quoted


async def test_owner_is_cached_for_a_minute(play: Stage) -> None:
    """Afterwards a revoked token is refused."""
    async with manager(play) as one:
        for _ in range(3):
            await one.get("logins")
        assert one.accounts.asked == 1
        del one.accounts.tokens["of-alice"]
        one.clock[0] = OWNER_CACHE_SECONDS
        assert await one.refused("GET", "logins") == (401, "M_UNKNOWN_TOKEN")


async def test_refused_requests(play: Stage) -> None:
    """Unknown tokens, users of other servers, and people without permission."""
    async with manager(play) as one:
        assert await one.refused("GET", "logins", token=None) == (401, "M_MISSING_TOKEN")
        assert await one.refused("GET", "logins", token="guessed") == (401, "M_UNKNOWN_TOKEN")
        assert await one.refused("GET", "logins", token="openid:guessed") == (401, "M_UNKNOWN_TOKEN")
        for token in ("of-a-ghost", "of-another", "of-eve"):
            assert await one.refused("GET", "logins", token=token) == (403, "M_FORBIDDEN")
        assert await one.refused("POST", "login/start/access_token", token="of-bob") == (403, "M_FORBIDDEN")


async def test_user_id_in_the_query(play: Stage) -> None:
    """It has to equal the token's owner."""
    async with manager(play) as one:
        await one.get("logins", query=f"?user_id={quoted(ALICE)}")
        of_bob = f"?user_id={quoted(BOB)}"
        assert await one.refused("GET", "logins", query=of_bob) == (403, "M_FORBIDDEN")
        # Also if it is the first request with the token.
        assert await one.refused("GET", "logins", token="of-alice-too", query=of_bob) == (403, "M_FORBIDDEN")


async def test_openid_token(play: Stage) -> None:
    """Only of the own homeserver; others are not asked."""
    async with manager(play) as one:
        await one.get("logins", token="openid:who-alice-is")
        # It is not an access token.
        assert await one.refused("GET", "logins", token="who-alice-is") == (401, "M_UNKNOWN_TOKEN")
        asked = one.accounts.asked
        elsewhere = f"?user_id={quoted('@alice:another.test')}"
        said = await one.refused("GET", "logins", token="openid:other", query=elsewhere)
        assert said == (403, "M_FORBIDDEN")
        assert one.accounts.asked == asked


async def test_shared_secret(play: Stage) -> None:
    """Acts as any person of the homeserver, with that person's permissions. Without a configured secret, none
    is accepted."""
    async with manager(play) as one:
        await one.get("logins", token=SECRET, query=f"?user_id={quoted(BOB)}")
        assert one.accounts.asked == 0
        assert await one.refused("GET", "logins", token=SECRET) == (400, "M_MISSING_PARAM")
        for user in (f"@eve:{THERE}", f"@_agent_worker-1:{THERE}", "@alice:another.test", "alice", ""):
            said = await one.refused("GET", "logins", token=SECRET, query=f"?user_id={quoted(user)}")
            assert said == (403, "M_FORBIDDEN")
    await play.end(one.scene)
    async with manager(play, secret=None) as one:
        said = await one.refused("GET", "logins", token=SECRET, query=f"?user_id={quoted(BOB)}")
        assert said == (401, "M_UNKNOWN_TOKEN")


async def test_unknown_tokens_are_rate_limited(play: Stage) -> None:
    """Valid tokens do not count."""
    limits = Limits(behind_proxy=Rate(0.1, 3))
    async with manager(play, limits=limits) as one:
        for number in range(3):
            said = await one.refused("GET", "logins", token=f"guess-{number}")
            assert said == (401, "M_UNKNOWN_TOKEN")
        assert await one.refused("GET", "logins", token="guess-4") == (429, "M_LIMIT_EXCEEDED")
        one.clock[0] = 1_000.0
        for _ in range(10):
            one.clock[0] += OWNER_CACHE_SECONDS + 1
            await one.get("logins")
    await play.end(one.scene)
    async with manager(play, limits=Limits(per_person=Rate(0.1, 2))) as one:
        for _ in range(2):
            await one.get("logins")
        assert await one.refused("GET", "logins") == (429, "M_LIMIT_EXCEEDED")
        await one.get("logins", token="of-bob")


async def test_unavailable_homeserver(play: Stage) -> None:
    """The response is 503, not a refusal."""
    async with manager(play) as one:
        one.accounts.status = 502
        assert await one.refused("GET", "logins") == (503, "M_UNKNOWN")
        one.accounts.status = 200
        await one.get("logins")
