"""Ghosts with their profiles, seen locally and from another node."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.agents.address import AgentAddress
from bridge.agents.routing_table import RoutingTable
from bridge.matrix.avatars import RETRY_DELAY
from bridge.matrix.ghost import puppet_id
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.federation.local_users.homes import Home, homes, homeserver_without_port
from tests.support.agents import NOW, registered, routing_table
from tests.support.ghosts import ghosts_of
from tests.support.postgres import Server

HERE, THERE = "here.test", "there.test"
NODE = f"@palaver:{HERE}"
WORKER, OTHER = f"@worker-1:{HERE}", f"@worker-2:{HERE}"


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    """A homeserver without a port."""
    async with homeserver_without_port(HERE, database) as home:
        yield home


@pytest.fixture
async def routes(home: Home) -> AsyncIterator[RoutingTable]:
    async with routing_table(home.database, HERE) as routes:
        await routes.update([registered(f"{name}@{HERE}") for name in ("worker-1", "worker-2")])
        yield routes


async def profile(home: Home, user: str) -> dict[str, str]:
    return dict(await home.rooms.profile(user) or {})


async def media_of(home: Home) -> int:
    async with home.database.transaction() as connection:
        count: int = await connection.fetchval("SELECT count(*) FROM media")
        return count


async def test_profile_is_visible_to_another_node(postgres_server: Server, migrated_template: str) -> None:
    """By profile queries, in rooms, and as media; agents of one runtime share an avatar."""
    async with homes(postgres_server, migrated_template) as made:
        here, there = await made.start(HERE, THERE)
        alice = await there.user("alice")
        async with routing_table(here.database, HERE) as routes:
            await routes.update(
                [
                    registered(f"worker-1@{HERE}"),
                    registered(f"worker-2@{HERE}"),
                    registered(f"kimi@{HERE}", runtime="kimi"),
                ]
            )
            names = {"worker-2": "The worker"}
            ghosts = ghosts_of(here, routes, name_of=lambda agent: names.get(agent.agent_id))
            await ghosts.ensure(NODE)
            room_id = await here.room(NODE)
            await there.rooms.join(room_id, alice, via=[HERE])
            for user in (WORKER, OTHER, f"@kimi:{HERE}"):
                await ghosts.join(room_id, user)
                await there.until_member(room_id, user, "join")
        seen = {one.user_id: one for one in await there.rooms.members(room_id)}
        asked = {user: await profile(there, user) for user in seen if user != alice}
        for user, said in asked.items():
            assert said == {"displayname": seen[user].displayname, "avatar_url": seen[user].avatar_url}
        assert {user: said["displayname"] for user, said in asked.items()} == {
            NODE: "Palaver",
            WORKER: "worker-1",
            OTHER: "The worker",
            f"@kimi:{HERE}": "kimi",
        }
        assert asked[WORKER]["avatar_url"] == asked[OTHER]["avatar_url"]
        urls = {said["avatar_url"] for said in asked.values()}
        assert len(urls) == await media_of(here) == 3
        for url in urls:
            async with there.rooms.download(url) as media:
                assert media.info.content_type == "image/png"
                assert (await anext(media.chunks)).startswith(b"\x89PNG")


async def test_restart_repeats_nothing(home: Home, routes: RoutingTable) -> None:
    """No upload and no event."""
    ghosts = ghosts_of(home, routes)
    await ghosts.ensure(NODE)
    room_id = await home.room(NODE)
    await ghosts.join(room_id, WORKER)
    before, position = await profile(home, WORKER), await home.graph.stream.last_position()
    again = ghosts_of(home, routes)
    await again.ensure(NODE)
    await again.join(room_id, WORKER)
    await again.join(room_id, WORKER)
    assert await home.graph.stream.last_position() == position
    assert await profile(home, WORKER) == before
    assert await media_of(home) == 2


async def test_profile_follows_the_agent(home: Home, routes: RoutingTable) -> None:
    """A changed runtime or configured name, also after a restart, reaches the rooms."""
    names: dict[str, str] = {}
    ghosts = ghosts_of(home, routes, name_of=lambda agent: names.get(agent.agent_id))
    await ghosts.ensure(NODE)
    room_id = await home.room(NODE)
    assert not ghosts.is_up_to_date(WORKER)
    await ghosts.join(room_id, WORKER)
    assert ghosts.is_up_to_date(WORKER)
    first = await profile(home, WORKER)
    names["worker-1"] = "The worker"
    assert not ghosts.is_up_to_date(WORKER)
    names.clear()
    assert ghosts.is_up_to_date(WORKER)
    await routes.update([registered(f"worker-1@{HERE}", NOW + 1, runtime="kimi")])
    assert not ghosts.is_up_to_date(WORKER)
    names["worker-1"] = "The\nworker"
    await ghosts.ensure(WORKER)
    assert ghosts.is_up_to_date(WORKER)
    second = await profile(home, WORKER)
    assert second["displayname"] == "The\\x0aworker"
    assert second["avatar_url"] != first["avatar_url"]
    await home.until(lambda event: event.content.get("avatar_url") == second["avatar_url"])
    names.clear()
    await ghosts_of(home, routes).ensure(WORKER)
    third = await profile(home, WORKER)
    assert third == {"displayname": "worker-1", "avatar_url": second["avatar_url"]}


async def test_puppet(home: Home) -> None:
    """It has the agent's name and the avatar of its runtime."""
    async with routing_table(home.database, HERE) as routes:
        await routes.update([registered("Old Worker@old_node", runtime="aider")])
        user = puppet_id(AgentAddress("Old Worker", "old_node"), HERE)
        assert isinstance(user, str)
        await ghosts_of(home, routes).ensure(user)
        assert (await profile(home, user))["displayname"] == "Old Worker"
        assert "avatar_url" in await profile(home, user)


async def test_unknown_agent(home: Home, routes: RoutingTable) -> None:
    """It is displayed by its id and keeps an earlier avatar."""
    user = f"@alice=3aexample.org:{HERE}"
    ghosts = ghosts_of(home)
    await ghosts.ensure(user)
    assert ghosts.is_up_to_date(user)
    assert await profile(home, user) == {"displayname": "alice:example.org"}
    await ghosts_of(home, routes, name_of=lambda agent: "The worker").ensure(WORKER)
    before = await profile(home, WORKER)
    await ghosts_of(home).ensure(WORKER)
    assert await profile(home, WORKER) == before
    odd = f"@a=5a=5:{HERE}"
    await ghosts_of(home).ensure(odd)
    assert await profile(home, odd) == {}


async def test_failed_avatar_does_not_block(home: Home, routes: RoutingTable) -> None:
    """The agent joins with its name, and the avatar follows later."""
    now, told = [0.0], list[str]()
    ghosts = ghosts_of(home, routes, monotonic=lambda: now[0], report=lambda sentence, error: told.append(sentence))
    node = await home.user("palaver")
    room_id = await home.room(node)
    directory = home.homeserver.media._store.files.directory
    away = directory.with_name(f"{directory.name}-away")
    directory.rename(away)
    await ghosts.join(room_id, WORKER)
    assert await home.rooms.membership(room_id, WORKER) == "join"
    assert await profile(home, WORKER) == {"displayname": "worker-1"}
    assert told == ["Failed to upload the avatar claude."]
    away.rename(directory)
    assert not ghosts.is_up_to_date(WORKER)
    await ghosts.ensure(WORKER)
    assert await profile(home, WORKER) == {"displayname": "worker-1"}
    now[0] += RETRY_DELAY
    await ghosts.ensure(WORKER)
    assert "avatar_url" in await profile(home, WORKER)
    assert len(told) == 1


@pytest.mark.parametrize("join_rule", ["public", "invite", "knock"])
async def test_join_under_any_join_rule(home: Home, routes: RoutingTable, join_rule: str) -> None:
    """The node's own user invites them; a repetition changes nothing."""
    ghosts = ghosts_of(home, routes)
    await ghosts.ensure(NODE)
    room_id = await home.room(NODE, join_rule=join_rule)
    await asyncio.gather(*(ghosts.join(room_id, WORKER) for _ in range(5)))
    assert await home.rooms.membership(room_id, WORKER) == "join"
    position = await home.graph.stream.last_position()
    await ghosts.join(room_id, WORKER)
    assert await home.graph.stream.last_position() == position


async def test_refused_users(home: Home, routes: RoutingTable) -> None:
    """Banned users, invalid users, and the node's own user in rooms that refuse it."""
    ghosts = ghosts_of(home, routes)
    await ghosts.ensure(NODE)
    room_id = await home.room(NODE)
    await ghosts.join(room_id, WORKER)
    await home.rooms.ban(room_id, NODE, WORKER)
    closed = await home.room(await home.user("alice"), join_rule="invite")
    for where, user in ((room_id, WORKER), (closed, NODE), (room_id, "@x:elsewhere"), ("!nowhere", WORKER)):
        with pytest.raises(MatrixError):
            await ghosts.join(where, user)
