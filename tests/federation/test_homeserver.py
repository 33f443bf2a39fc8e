"""A homeserver, put together."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from federation.client.errors import PeerNotAllowed
from federation.client.requests import request_target
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.observer import HomeserverObserver
from federation.peers.policy import policy
from storage.database import Database
from storage.errors import LocalError
from tests.federation.nodes import keys_of, nodes, now_ms
from tests.support.postgres import Server

NAME = "kitchen.local"


def _open(settings: HomeserverSettings, database: Database) -> AbstractAsyncContextManager[Homeserver]:
    keys = keys_of(NAME)
    return open_homeserver(settings, database, lambda: keys, now_ms=now_ms, observer=HomeserverObserver())


async def test_it_speaks_only_with_those_it_may(database: Database, tmp_path: Path) -> None:
    """Closed by default, and that in both directions."""
    async with _open(HomeserverSettings(NAME, "1", tmp_path / "media"), database) as homeserver:
        with pytest.raises(PeerNotAllowed):
            await homeserver.client.request("GET", "matrix.org", request_target("/_matrix/key/v2/server"))
        assert homeserver.outbox.view() == {}


async def test_a_file_that_cannot_be_used_is_named(database: Database, tmp_path: Path) -> None:
    """And what had been opened before is closed again."""
    settings = HomeserverSettings(NAME, "1", tmp_path / "media", authorities=tmp_path / "none.pem")
    with pytest.raises(LocalError, match=r"none\.pem"):
        async with _open(settings, database):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="media"):
        async with _open(replace(settings, authorities=None, media_directory=tmp_path / "file"), database):
            pass


async def test_two_of_them_share_a_room(postgres_server: Server, migrated_template: str) -> None:
    """What one says the other's stream brings, in every version that new rooms may have."""
    async with nodes(postgres_server, migrated_template) as all_:
        one, other = await all_.start("one.test", "other.test")
        for version in ("10", "11", "12"):
            alice, bob = one.user("alice"), other.user("bob")
            room_id = await one.create(version, alice)
            await other.membership.join(room_id, bob, via=[one.name])
            position = await other.graph.stream.last_position()
            said = await one.say(room_id, alice, "hello")
            await other.until(lambda event_id, _, said=said: event_id == said, position)


def test_the_policy_is_the_settings_own() -> None:
    """A homeserver that is told nothing admits nobody."""
    assert HomeserverSettings(NAME, "1", Path("media")).policy == policy((), is_open=False)
