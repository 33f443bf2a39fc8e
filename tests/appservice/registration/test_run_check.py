"""Asks the homeserver whether it knows us and reaches us."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from appservice.homeserver.accounts import MAX_BYTES
from appservice.registration.registration import make
from appservice.registration.run_check import check_homeserver
from tests.appservice.registration.test_registration import SECRETS, WANTED
from tests.support.ports import lasting_port

REGISTRATION = make(WANTED, SECRETS)
ME = {"user_id": f"@{SECRETS.sender_localpart}:their.server"}


@dataclass
class Played:
    """A homeserver as far as it is asked here. It remembers who showed which token, and which pings it
    brought: to `brings_to` with a token, where it was given one; and the aliases that it was asked for."""

    versions: Any = field(default_factory=lambda: {"versions": ["v1.7"]})
    whoami: Any = field(default_factory=lambda: ME)
    registered: Any = field(default_factory=dict)
    brings_to: tuple[str, str] | None = None
    broken_pings: int = 0
    pinged: list[str] = field(default_factory=list)
    looked_for: list[str] = field(default_factory=list)
    no_alias: tuple[int, str] = (404, "M_NOT_FOUND")
    shown: list[str | None] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.shown.append(request.headers.get("Authorization"))
        match request.path:
            case "/_matrix/client/versions":
                said = self.versions
            case "/_matrix/client/v3/account/whoami":
                said = self.whoami
            case "/_matrix/client/v3/register" if request.method == "POST":
                said = self.registered
            case "/_matrix/client/v1/appservice/palaver/ping" if request.method == "POST":
                said = await self._bring(await request.json())
            case path if path.startswith("/_matrix/client/v3/directory/room/"):
                self.looked_for.append(path.rpartition("/")[2])
                status, errcode = self.no_alias
                return web.json_response({"errcode": errcode}, status=status)
            case _:
                return web.json_response({"errcode": "M_UNRECOGNIZED"}, status=404)
        return said if isinstance(said, web.Response) else web.json_response(said)

    async def _bring(self, ping: Any) -> Any:
        self.pinged.append(ping["transaction_id"])
        if len(self.pinged) <= self.broken_pings:
            failed = {"errcode": "M_CONNECTION_FAILED", "error": "ConnectError: refused"}
            return web.json_response(failed, status=502)
        if self.brings_to is not None:
            url, token = self.brings_to
            headers = {"Authorization": f"Bearer {token}"}
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{url}/_matrix/app/v1/ping", json=ping, headers=headers) as answer,
            ):
                if answer.status != 200:
                    failed = {"errcode": "M_BAD_STATUS", "status": answer.status}
                    return web.json_response(failed, status=502)
        return {"duration_ms": 1}


@asynccontextmanager
async def served(played: Played) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", played.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def checked(url: str, came: Callable[[str], bool] | None, *, has_offices: bool = False) -> str | None:
    wanted = replace(WANTED, has_offices=has_offices)
    async with aiohttp.ClientSession() as session:
        return await check_homeserver(session, url, REGISTRATION, wanted, came)


async def test_a_homeserver_that_knows_us_and_reaches_us() -> None:
    """Nothing is wrong; and the token is shown only where it is needed."""
    played = Played()
    async with served(played) as url:
        assert await checked(url, lambda pinged: pinged in played.pinged) is None
        assert len(played.pinged) == 1
        assert await checked(url, None) is None
        assert len(played.pinged) == 1
    shown = f"Bearer {SECRETS.as_token}"
    assert played.shown == [None, shown, shown, shown, None, shown, shown]


async def test_a_ping_that_did_not_come_here_is_told() -> None:
    """Whatever the homeserver says."""
    async with served(Played()) as url:
        assert "Another program" in (await checked(url, lambda pinged: False) or "")


async def test_a_connection_that_was_over_is_none() -> None:
    """A homeserver may have kept a connection to the process that had the port before. That it fails is not
    an error; that a new one fails is, and the sentence has the homeserver's reason."""
    played = Played(broken_pings=1)
    async with served(played) as url:
        assert await checked(url, lambda pinged: len(played.pinged) == 2) is None
        assert len(played.pinged) == 2
        assert len(set(played.pinged)) == 1
        played.broken_pings = 1_000
        sentence = await checked(url, lambda pinged: False) or ""
        assert "cannot reach this node" in sentence
        assert "ConnectError: refused" in sentence


async def test_a_ping_that_came_counts_whatever_is_answered() -> None:
    """A Synapse that is repeating transactions says that it failed, although it was answered."""
    played = Played(broken_pings=1_000)
    async with served(played) as url:
        assert await checked(url, lambda pinged: pinged in played.pinged) is None


async def test_nobody_is_there() -> None:
    """With the reason that the system gives."""
    url = f"http://127.0.0.1:{lasting_port()}"
    assert f"does not respond at {url} (" in (await checked(url, None) or "")


@pytest.mark.parametrize(
    ("versions", "part"),
    [
        (web.Response(text="<html>"), "is not a homeserver"),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}), "is not a homeserver"),
        (web.Response(body=b"x" * (MAX_BYTES + 1)), "too large"),
    ],
)
async def test_something_else_is_there(versions: web.Response, part: str) -> None:
    """It is not shown the token, nor followed anywhere."""
    played = Played(versions=versions)
    async with served(played) as url:
        assert part in (await checked(url, None) or "")
    assert played.shown == [None]


async def test_names_that_somebody_else_has() -> None:
    """It is asked for no ping."""
    played = Played(registered=web.json_response({"errcode": "M_EXCLUSIVE"}, status=400))
    async with served(played) as url:
        assert "reserves users that begin with _agent_" in (await checked(url, lambda pinged: True) or "")
    assert played.pinged == []


async def test_a_homeserver_that_does_not_know_us() -> None:
    """It is asked for no ping."""
    unknown = web.json_response({"errcode": "M_UNKNOWN_TOKEN"}, status=401)
    played = Played(whoami=unknown)
    async with served(played) as url:
        assert "does not know the as_token" in (await checked(url, lambda pinged: True) or "")
    assert played.pinged == []


async def test_a_homeserver_that_does_not_ask_us_for_offices() -> None:
    """Its copy of the registration is of before there were any. It is asked only where there are offices, for
    one that nobody has; what else it may say to that is not ours to mend."""
    played = Played()
    async with served(played) as url:
        assert await checked(url, lambda asked: True) is None
        assert played.looked_for == []
        assert await checked(url, lambda asked: True, has_offices=True) is None
        old = await checked(url, lambda asked: not asked.startswith("="), has_offices=True) or ""
        played.no_alias = 403, "M_FORBIDDEN"
        assert await checked(url, lambda asked: not asked.startswith("="), has_offices=True) is None
    assert "copy of the registration “palaver” does not reserve the aliases of offices" in old
    assert len(played.looked_for) == len(set(played.looked_for)) == 3
    assert all("office-" in alias and "check-" in alias for alias in played.looked_for)
