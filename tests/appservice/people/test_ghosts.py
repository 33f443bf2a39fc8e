"""Registering ghosts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from appservice.homeserver.api import HomeserverUnavailable
from appservice.homeserver.client import HomeserverClient, open_session
from appservice.people.ghosts import GhostUsers
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.appservice.intakes import OURS
from tests.appservice.registration.test_run_check import REGISTRATION, FakeHomeserver, served

GHOST = "@_agent_worker-1:their.server"


@asynccontextmanager
async def ghosts_on(database: Database, url: str) -> AsyncIterator[tuple[GhostUsers, list[str]]]:
    made: list[str] = []

    async def note(user: str) -> None:
        made.append(user)

    async with open_session() as session:
        client = HomeserverClient(session, url, REGISTRATION.secrets.as_token)
        ghosts = GhostUsers(client, OURS, database, now_ms=lambda: 1_000, on_created=note)
        try:
            yield ghosts, made
        finally:
            await ghosts.close()


async def test_ghost_is_registered_once(database: Database) -> None:
    """Also on concurrent demand, and for a later process."""
    fake = FakeHomeserver()
    async with served(fake) as url:
        async with ghosts_on(database, url) as (ghosts, made):
            assert not await ghosts.is_registered(GHOST)
            await asyncio.gather(*(ghosts.ensure_user(GHOST) for _ in range(5)))
            assert await ghosts.is_registered(GHOST)
            assert made == [GHOST]
        async with ghosts_on(database, url) as (later, made):
            await later.ensure_user(GHOST)
            assert made == []
    assert fake.shown == [f"Bearer {REGISTRATION.secrets.as_token}"]


async def test_existing_ghost_is_adopted(database: Database) -> None:
    """A process was killed before it recorded the ghost."""
    fake = FakeHomeserver(registered=web.json_response({"errcode": "M_USER_IN_USE"}, status=400))
    async with served(fake) as url, ghosts_on(database, url) as (ghosts, made):
        await ghosts.ensure_user(GHOST)
        assert await ghosts.is_registered(GHOST)
        # The homeserver knows its rooms.
        assert made == []


@pytest.mark.parametrize(
    ("said", "status", "errcode", "part"),
    [
        ({"errcode": "M_EXCLUSIVE"}, 400, "M_EXCLUSIVE", "reserves users that begin with _agent_"),
        ({"errcode": "M_LIMIT_EXCEEDED", "retry_after_ms": 99_999}, 429, "M_LIMIT_EXCEEDED", "no reason"),
        ({"errcode": "M_INVALID_USERNAME"}, 400, "M_INVALID_USERNAME", "refuses to register"),
    ],
)
async def test_refused_registration_is_not_recorded(
    database: Database, said: Any, status: int, errcode: str, part: str
) -> None:
    """The next demand retries it."""
    fake = FakeHomeserver(registered=web.json_response(said, status=status))
    async with served(fake) as url, ghosts_on(database, url) as (ghosts, _):
        with pytest.raises(MatrixError) as refused:
            await ghosts.ensure_user(GHOST)
        assert (refused.value.errcode, part in refused.value.text) == (errcode, True)
        assert not await ghosts.is_registered(GHOST)
        fake.registered = {}
        await ghosts.ensure_user(GHOST)


@pytest.mark.parametrize(
    "said", [web.Response(status=502), web.json_response({"errcode": "M_UNKNOWN_TOKEN"}, status=401)]
)
async def test_unavailable_homeserver_raises(database: Database, said: web.Response) -> None:
    """The ghost may be registered; or the registration has to be restored."""
    fake = FakeHomeserver(registered=said)
    async with served(fake) as url, ghosts_on(database, url) as (ghosts, made):
        with pytest.raises(HomeserverUnavailable):
            await ghosts.ensure_user(GHOST)
        assert not await ghosts.is_registered(GHOST)
        assert made == []


@pytest.mark.parametrize(
    "user", ["@alice:their.server", "@_agent_worker-1:other.server", "@_agent_:their.server", "nobody"]
)
async def test_only_ghosts_are_registered(database: Database, user: str) -> None:
    """No request is made for others."""
    fake = FakeHomeserver()
    async with served(fake) as url, ghosts_on(database, url) as (ghosts, _):
        with pytest.raises(MatrixError, match="M_EXCLUSIVE"):
            await ghosts.ensure_user(user)
    assert fake.shown == []
