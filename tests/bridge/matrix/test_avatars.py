"""Uploading avatars."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import sha256
from typing import Any

import pytest

from bridge.matrix.avatars import DEFAULT_AVATAR, RETRY_DELAY, Avatars, picture
from bridge.matrix.ghost import avatar
from storage.database import Database
from tests.federation.local_users.homes import Home, homeserver_without_port

CLAUDE, KIMI = avatar("claude"), avatar("kimi")
NODE = "@palaver:here.test"


class Life:
    """One process of a node, with what it reported."""

    def __init__(self, home: Home, **more: Any) -> None:
        self.now, self.told = 0.0, list[str]()
        self.avatars = Avatars(
            home.rooms,
            home.database,
            NODE,
            monotonic=lambda: self.now,
            report=lambda sentence, error: self.told.append(sentence),
            **more,
        )


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    async with homeserver_without_port("here.test", database) as home:
        yield home


async def uploads(home: Home) -> int:
    async with home.database.transaction() as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM media")
        return count


async def test_upload(home: Home) -> None:
    """As a PNG by the node's own user."""
    url = await Life(home).avatars.url(CLAUDE)
    assert url is not None
    async with home.rooms.download(url) as media:
        data = b"".join([chunk async for chunk in media.chunks])
        assert (media.info.content_type, media.info.file_name) == ("image/png", "claude.png")
        assert media.info.uploader == NODE
    assert data == picture(CLAUDE)
    assert sha256(data).hexdigest() == media.info.sha256


async def test_upload_happens_once(home: Home) -> None:
    """For concurrent requests, several processes, and after a restart."""
    lives = [Life(home) for _ in range(3)]
    urls = await asyncio.gather(*(life.avatars.url(CLAUDE) for life in lives for _ in range(5)))
    assert await Life(home).avatars.url(CLAUDE) == urls[0]
    assert len(set(urls)) == 1
    assert await uploads(home) == 1
    assert await Life(home).avatars.url(KIMI) != urls[0]
    assert await uploads(home) == 2


async def test_failed_upload_is_retried_later(home: Home) -> None:
    """It is reported once and not requested again until then."""
    life, directory = Life(home), home.homeserver.media._store.files.directory
    away = directory.with_name(f"{directory.name}-away")
    directory.rename(away)
    assert await asyncio.gather(*(life.avatars.url(CLAUDE) for _ in range(3))) == [None, None, None]
    away.rename(directory)
    assert await life.avatars.url(CLAUDE) is None
    assert life.told == ["Failed to upload the avatar claude."]
    assert await life.avatars.url(KIMI) is not None
    life.now += RETRY_DELAY
    assert await life.avatars.url(CLAUDE) is not None
    assert len(life.told) == 1


async def test_number_of_avatars_is_limited(home: Home) -> None:
    """Further runtimes share the default."""
    life = Life(home, most=2)
    first = [await life.avatars.url(avatar(name)) for name in ("one", "two")]
    rest = [await life.avatars.url(avatar(name)) for name in ("three", "four")]
    at_once = Life(home, most=2)
    many = await asyncio.gather(*(at_once.avatars.url(avatar(str(number))) for number in range(5)))
    assert sorted(map(many.count, many)) == [1, 1, 3, 3, 3]
    assert len({*first, *rest}) == 3
    assert rest[0] == rest[1] == await life.avatars.url(DEFAULT_AVATAR)
    assert await life.avatars.url(avatar("one")) == first[0]
    assert await uploads(home) == 5
