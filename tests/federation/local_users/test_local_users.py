"""Profiles, media, capabilities and lags."""

import pytest

from federation.matrix.capabilities import BackendCapability
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.federation.local_users.homes import Home, homes, homeserver_without_port
from tests.support.postgres import Server


async def test_profiles(database: Database) -> None:
    """Fields that are not given stay, empty ones are removed, and the rooms of the user are updated."""
    async with homeserver_without_port("here.test", database) as home:
        alice = await home.user("alice")
        room_id = await home.room(alice)
        await home.rooms.set_profile(alice)
        assert await home.rooms.profile(alice) == {}
        await home.rooms.set_profile(alice, displayname="Alice", avatar_url="mxc://here.test/1")
        await home.rooms.set_profile(alice, avatar_url="")
        assert await home.rooms.profile(alice) == {"displayname": "Alice"}
        await home.until(
            lambda event: (
                event.state_key == alice
                and (event.content.get("displayname"), event.content.get("avatar_url")) == ("Alice", None)
            )
        )
        assert (await home.state(room_id, "m.room.member", alice))["displayname"] == "Alice"
        assert await home.rooms.profile("@nobody:here.test") is None
        for act, code in (
            (home.rooms.set_profile("@bob:there.test", displayname="x"), "403 M_FORBIDDEN"),
            (home.rooms.set_profile("@nobody:here.test", displayname="x"), "404 M_NOT_FOUND"),
            (home.rooms.ensure_user("@UPPER:here.test"), "M_INVALID_USERNAME"),
            (home.rooms.profile("@bob:nowhere.invalid"), "502"),
        ):
            with pytest.raises(MatrixError, match=code):
                await act


async def test_media_is_uploaded_here_and_downloaded_there(postgres_server: Server, migrated_template: str) -> None:
    """Media that is not available gives an error."""
    async with homes(postgres_server, migrated_template) as running:
        here: Home
        here, there = await running.start("here.test", "there.test")
        alice = await here.user("alice")
        info = await here.rooms.upload(alice, b"soup", "text/plain", "recipe.txt")
        for home in (here, there):
            async with home.rooms.download(str(info.mxc)) as opened:
                assert b"".join([chunk async for chunk in opened.chunks]) == b"soup"
                assert opened.info.file_name == "recipe.txt"
        for address, code in (("mxc://here.test/nothing", "404"), ("mxc://nowhere.invalid/x", "502"), ("x", "400")):
            with pytest.raises(MatrixError, match=code):
                async with here.rooms.download(address):
                    raise AssertionError("there is none")
        with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
            await here.rooms.upload("@bob:there.test", b"")


async def test_a_homeserver_has_all_capabilities(database: Database) -> None:
    """An application service lacks some."""
    async with homeserver_without_port("here.test", database) as home:
        assert home.rooms.server_name == "here.test"
        assert home.rooms.capabilities == set(BackendCapability)


async def test_lags_of_readers(database: Database) -> None:
    """An operator sees a reader that has stopped."""
    async with homeserver_without_port("here.test", database) as home:
        room_id = await home.room(await home.user("alice"))
        async with home.rooms.subscription("a") as subscription:
            entries = await subscription.next()
            async with database.transaction() as connection:
                await subscription.advance(connection, entries[-3].position)
        assert await home.rooms.lags() == {"a": 2}
        assert (await home.rooms.members(room_id))[0].membership == "join"
