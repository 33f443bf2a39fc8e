"""The users of ours on the homeserver."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from appservice.service.ghosts import GhostUsers
from federation.errors import MatrixError
from storage.database import Database
from tests.appservice.service.guests import OURS
from tests.appservice.service.test_homeserver_check import REGISTRATION, Played, served

GHOST = "@_agent_worker-1:their.server"


@asynccontextmanager
async def ghosts_on(database: Database, url: str) -> AsyncIterator[GhostUsers]:
    async with aiohttp.ClientSession() as session:
        ghosts = GhostUsers(session, url, REGISTRATION, OURS, database, now_ms=lambda: 1_000)
        try:
            yield ghosts
        finally:
            await ghosts.close()


async def test_a_ghost_is_made_once(database: Database) -> None:
    """Also when many need it at the same time, and by a process that comes later."""
    played = Played()
    async with served(played) as url:
        async with ghosts_on(database, url) as ghosts:
            assert not await ghosts.is_known(GHOST)
            await asyncio.gather(*(ghosts.ensure_user(GHOST) for _ in range(5)))
            assert await ghosts.is_known(GHOST)
        async with ghosts_on(database, url) as later:
            await later.ensure_user(GHOST)
    assert played.shown == [f"Bearer {REGISTRATION.secrets.as_token}"]


async def test_one_that_is_there_already_is_ours(database: Database) -> None:
    """A process was killed before it had written it down."""
    played = Played(registered=web.json_response({"errcode": "M_USER_IN_USE"}, status=400))
    async with served(played) as url, ghosts_on(database, url) as ghosts:
        await ghosts.ensure_user(GHOST)
        assert await ghosts.is_known(GHOST)


@pytest.mark.parametrize(
    ("said", "status", "errcode", "part"),
    [
        ({"errcode": "M_EXCLUSIVE"}, 400, "M_EXCLUSIVE", "reserves users that begin with _agent_"),
        ({"errcode": "M_UNKNOWN_TOKEN"}, 401, "M_UNKNOWN_TOKEN", "does not give us"),
        ({"errcode": "M_LIMIT_EXCEEDED"}, 429, "M_UNKNOWN", "does not give us"),
        ({}, 502, "M_UNKNOWN", "(HTTP status 502)"),
        ({}, 404, "M_UNKNOWN", "(HTTP status 404)"),
    ],
)
async def test_what_the_homeserver_refuses_is_written_down_nowhere(
    database: Database, said: Any, status: int, errcode: str, part: str
) -> None:
    """It is asked again when the ghost is needed again."""
    played = Played(registered=web.json_response(said, status=status))
    async with served(played) as url, ghosts_on(database, url) as ghosts:
        with pytest.raises(MatrixError) as refused:
            await ghosts.ensure_user(GHOST)
        assert (refused.value.errcode, part in refused.value.text) == (errcode, True)
        assert not await ghosts.is_known(GHOST)
        played.registered = {}
        await ghosts.ensure_user(GHOST)


@pytest.mark.parametrize(
    "user", ["@alice:their.server", "@_agent_worker-1:other.server", "@_agent_:their.server", "nobody"]
)
async def test_only_ghosts_are_made(database: Database, user: str) -> None:
    """Nobody else is asked for."""
    played = Played()
    async with served(played) as url, ghosts_on(database, url) as ghosts:
        with pytest.raises(MatrixError):
            await ghosts.ensure_user(user)
    assert played.shown == []
