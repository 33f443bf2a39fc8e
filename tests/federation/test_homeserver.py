"""An assembled homeserver."""

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


async def test_the_federation_policy_applies_in_both_directions(database: Database, tmp_path: Path) -> None:
    """It is closed by default."""
    async with _open(HomeserverSettings(NAME, "1", tmp_path / "media"), database) as homeserver:
        with pytest.raises(PeerNotAllowed):
            await homeserver.client.request("GET", "matrix.org", request_target("/_matrix/key/v2/server"))
        assert homeserver.outbox.view() == {}


async def test_an_unusable_file_is_reported(database: Database, tmp_path: Path) -> None:
    """What was opened before is closed."""
    settings = HomeserverSettings(NAME, "1", tmp_path / "media", authorities=tmp_path / "none.pem")
    with pytest.raises(LocalError, match=r"none\.pem"):
        async with _open(settings, database):
            pass
    (tmp_path / "file").touch()
    with pytest.raises(LocalError, match="media"):
        async with _open(replace(settings, authorities=None, media_directory=tmp_path / "file"), database):
            pass


async def test_two_homeservers_share_a_room(postgres_server: Server, migrated_template: str) -> None:
    """Events of one are in the other's stream, in each room version for new rooms."""
    async with nodes(postgres_server, migrated_template) as all_:
        one, other = await all_.start("one.test", "other.test")
        for version in ("10", "11", "12"):
            alice, bob = one.user("alice"), other.user("bob")
            room_id = await one.create(version, alice)
            await other.membership.join(room_id, bob, via=[one.name])
            position = await other.graph.stream.last_position()
            said = await one.say(room_id, alice, "hello")
            await other.until(lambda event_id, _, said=said: event_id == said, position)


def test_the_default_policy_admits_no_server() -> None:
    """It has to be configured."""
    assert HomeserverSettings(NAME, "1", Path("media")).policy == policy((), is_open=False)
