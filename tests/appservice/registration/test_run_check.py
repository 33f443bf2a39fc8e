"""Checking the connection with requests."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from appservice.homeserver.accounts import MAX_BYTES
from appservice.registration.check import NO_PINGS
from appservice.registration.registration import make
from appservice.registration.run_check import check_homeserver, find_homeserver_problem
from tests.appservice.registration.test_registration import SECRETS, WANTED
from tests.support.ports import lasting_port

REGISTRATION = make(WANTED, SECRETS)
ME = {"user_id": f"@{SECRETS.sender_localpart}:their.server"}


@dataclass
class FakeHomeserver:
    """A fake homeserver. It records tokens, pings, which it delivers to `brings_to`, and queried aliases."""

    versions: Any = field(default_factory=lambda: {"versions": ["v1.7"]})
    whoami: Any = field(default_factory=lambda: ME)
    registered: Any = field(default_factory=dict)
    brings_to: tuple[str, str] | None = None
    has_pings: bool = True
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
            case "/_matrix/client/v1/appservice/palaver/ping" if self.has_pings and request.method == "POST":
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
async def served(fake: FakeHomeserver) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.answer)
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


async def test_no_problem() -> None:
    """The token is only sent where it is needed."""
    fake = FakeHomeserver()
    async with served(fake) as url:
        assert await checked(url, lambda pinged: pinged in fake.pinged) is None
        assert len(fake.pinged) == 1
        assert await checked(url, None) is None
        assert len(fake.pinged) == 1
    shown = f"Bearer {SECRETS.as_token}"
    assert fake.shown == [None, shown, shown, shown, None, shown, shown]


async def test_ping_did_not_arrive() -> None:
    """Whatever the homeserver responds."""
    async with served(FakeHomeserver()) as url:
        assert "Another program" in (await checked(url, lambda pinged: False) or "")


async def test_a_homeserver_without_pings() -> None:
    """That is a warning, which does not hide a problem that is found afterwards."""
    fake = FakeHomeserver(has_pings=False)
    async with served(fake) as url, aiohttp.ClientSession() as session:
        found = await find_homeserver_problem(session, url, REGISTRATION, WANTED, lambda pinged: False)
        assert found == NO_PINGS
        old = await checked(url, lambda asked: not asked.startswith("="), has_offices=True) or ""
        assert "does not reserve the aliases of offices" in old


async def test_stale_connection_is_retried() -> None:
    """A homeserver may have kept a connection to the process that had the port before. That it fails is not
    an error; that a new one fails is, and the sentence has the homeserver's reason."""
    fake = FakeHomeserver(broken_pings=1)
    async with served(fake) as url:
        assert await checked(url, lambda pinged: len(fake.pinged) == 2) is None
        assert len(fake.pinged) == 2
        assert len(set(fake.pinged)) == 1
        fake.broken_pings = 1_000
        sentence = await checked(url, lambda pinged: False) or ""
        assert "cannot reach this node" in sentence
        assert "ConnectError: refused" in sentence


async def test_received_ping_counts() -> None:
    """A Synapse that is repeating transactions reports a failure although it was answered."""
    fake = FakeHomeserver(broken_pings=1_000)
    async with served(fake) as url:
        assert await checked(url, lambda pinged: pinged in fake.pinged) is None


async def test_no_response() -> None:
    """With the operating system's reason."""
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
async def test_not_a_homeserver(versions: web.Response, part: str) -> None:
    """It receives no token, and no redirect is followed."""
    fake = FakeHomeserver(versions=versions)
    async with served(fake) as url:
        assert part in (await checked(url, None) or "")
    assert fake.shown == [None]


async def test_names_of_another_application_service() -> None:
    """No ping is requested."""
    fake = FakeHomeserver(registered=web.json_response({"errcode": "M_EXCLUSIVE"}, status=400))
    async with served(fake) as url:
        assert "reserves users that begin with _agent_" in (await checked(url, lambda pinged: True) or "")
    assert fake.pinged == []


async def test_unknown_as_token() -> None:
    """No ping is requested."""
    unknown = web.json_response({"errcode": "M_UNKNOWN_TOKEN"}, status=401)
    fake = FakeHomeserver(whoami=unknown)
    async with served(fake) as url:
        assert "does not know the as_token" in (await checked(url, lambda pinged: True) or "")
    assert fake.pinged == []


async def test_outdated_copy_without_offices() -> None:
    """Its copy is from before offices existed. Only checked if offices are enabled, with an unused alias;
    other responses are ignored."""
    fake = FakeHomeserver()
    async with served(fake) as url:
        assert await checked(url, lambda asked: True) is None
        assert fake.looked_for == []
        assert await checked(url, lambda asked: True, has_offices=True) is None
        old = await checked(url, lambda asked: not asked.startswith("="), has_offices=True) or ""
        fake.no_alias = 403, "M_FORBIDDEN"
        assert await checked(url, lambda asked: not asked.startswith("="), has_offices=True) is None
    assert "copy of the registration “palaver” does not reserve the aliases of offices" in old
    assert len(fake.looked_for) == len(set(fake.looked_for)) == 3
    assert all("office-" in alias and "check-" in alias for alias in fake.looked_for)
