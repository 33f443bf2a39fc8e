"""Local users and profiles, and remote profiles."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from federation.client.errors import PeerMalformed, PeerRefused
from federation.directory.profiles import CACHE_MS, NEGATIVE_CACHE_MS, Profiles
from federation.matrix.errors import MatrixError, PeerError
from storage.database import Database
from storage.federation.users import list_changes
from tests.support.graph import graph_on
from tests.support.neighbourhood import OWN_NAME, Neighbourhood
from tests.support.rooms import public_room

PEER = "peer.test"
ALICE, BOB = f"@alice:{OWN_NAME}", f"@bob:{PEER}"


class Peer:
    """A server that responds with a given profile for each user."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: tuple[Any, int] = ({"displayname": "Bob"}, 200)
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, request: web.Request) -> web.Response:
        self.asked.append(request.query["user_id"])
        await self.may_answer.wait()
        content, status = self.answer
        return web.json_response(content, status=status)


@pytest.fixture
async def peer(neighbourhood: Neighbourhood) -> Peer:
    made = Peer()
    server = await neighbourhood.server(made, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return made


@pytest.fixture
async def profiles(neighbourhood: Neighbourhood, peer: Peer, database: Database) -> AsyncIterator[Profiles]:
    async with graph_on(database, public_room("12")) as here:
        made = Profiles(
            OWN_NAME,
            database,
            neighbourhood.reach().client,
            here.graph,
            now_ms=lambda: int(neighbourhood.clock() * 1000),
        )
        await made.start()
        yield made
        await made.close()


async def test_a_user_is_created_once(profiles: Profiles) -> None:
    """With an empty profile; creating it again has no effect."""
    assert not await profiles.exists(ALICE)
    assert await profiles.profile(ALICE) is None
    await profiles.ensure_user(ALICE)
    await profiles.set_profile(ALICE, displayname="Alice")
    await profiles.ensure_user(ALICE)
    assert await profiles.exists(ALICE)
    assert await profiles.profile(ALICE) == {"displayname": "Alice"}


@pytest.mark.parametrize("user", [BOB, "alice", f"@Alice:{OWN_NAME}", f"@:{OWN_NAME}", f"@a\0b:{OWN_NAME}", "@a"])
async def test_only_valid_local_users_are_created(profiles: Profiles, user: str) -> None:
    """Users of other servers and invalid localparts are refused."""
    with pytest.raises(MatrixError, match="400 M_INVALID_USERNAME"):
        await profiles.ensure_user(user)
    assert not await profiles.exists(user)
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await profiles.set_profile(user, displayname="x")


async def test_a_profile_is_changed_field_by_field(profiles: Profiles) -> None:
    """A refused field leaves the other fields of the call unchanged too."""
    await profiles.ensure_user(ALICE)
    await profiles.set_profile(ALICE, displayname="Alice", avatar_url="mxc://a/b")
    await profiles.set_profile(ALICE, displayname=None, **{"m.tz": "UTC"})
    assert await profiles.profile(ALICE) == {"avatar_url": "mxc://a/b", "m.tz": "UTC"}
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await profiles.set_profile(ALICE, avatar_url=None, displayname="x" * 257)
    assert await profiles.profile(ALICE) == {"avatar_url": "mxc://a/b", "m.tz": "UTC"}


async def test_concurrent_changes_are_both_made(profiles: Profiles) -> None:
    """Each is based on the other."""
    await profiles.ensure_user(ALICE)
    await asyncio.gather(*(profiles.set_profile(ALICE, **{f"m.x{number}": number}) for number in range(8)))
    assert await profiles.profile(ALICE) == {f"m.x{number}": number for number in range(8)}


async def test_only_display_name_and_avatar_update_rooms(neighbourhood: Neighbourhood, database: Database) -> None:
    """Other fields are not in member events."""
    async with graph_on(database, public_room("12")) as here:
        client = neighbourhood.reach().client
        profiles = Profiles(OWN_NAME, database, client, here.graph, now_ms=lambda: 1)
        await profiles.ensure_user(ALICE)
        await profiles.set_profile(ALICE, **{"m.tz": "UTC"})
        async with database.transaction() as connection:
            assert await list_changes(connection, 0, 10) == []
        await profiles.set_profile(ALICE, displayname="Alice")
        async with database.transaction() as connection:
            assert [change.user_id for change in await list_changes(connection, 0, 10)] == [ALICE]


async def test_remote_profiles_are_cached_for_some_minutes(
    neighbourhood: Neighbourhood, profiles: Profiles, peer: Peer
) -> None:
    """Then they are requested again."""
    for _ in range(3):
        assert await profiles.profile(BOB) == {"displayname": "Bob"}
    assert peer.asked == [BOB]
    neighbourhood.clock.now += CACHE_MS / 1000
    peer.answer = ({"displayname": "Robert", "m.tz": "UTC"}, 200)
    assert await profiles.profile(BOB) == {"displayname": "Robert", "m.tz": "UTC"}
    assert peer.asked == [BOB, BOB]


async def test_concurrent_queries_make_one_request(profiles: Profiles, peer: Peer) -> None:
    """Each caller gets its own copy."""
    peer.may_answer.clear()
    waiting = [asyncio.create_task(profiles.profile(BOB)) for _ in range(5)]
    while not peer.asked:
        await asyncio.sleep(0)
    peer.may_answer.set()
    answers = await asyncio.gather(*waiting)
    assert peer.asked == [BOB]
    assert answers == [{"displayname": "Bob"}] * 5
    assert answers[0] is not None
    answers[0].clear()
    assert await profiles.profile(BOB) == {"displayname": "Bob"}


async def test_missing_users_are_cached_too(neighbourhood: Neighbourhood, profiles: Profiles, peer: Peer) -> None:
    """For a shorter time."""
    peer.answer = ({"errcode": "M_NOT_FOUND"}, 404)
    assert await profiles.profile(BOB) is None
    peer.answer = ({}, 200)
    assert await profiles.profile(BOB) is None
    neighbourhood.clock.now += NEGATIVE_CACHE_MS / 1000
    assert await profiles.profile(BOB) == {}


async def test_failures_are_not_cached(profiles: Profiles, peer: Peer) -> None:
    """A refusal, an invalid response, an unreachable server."""
    peer.answer = ({"errcode": "M_FORBIDDEN"}, 403)
    with pytest.raises(PeerRefused):
        await profiles.profile(BOB)
    peer.answer = ({"m.note": "x" * 70_000}, 200)
    with pytest.raises(PeerMalformed):
        await profiles.profile(BOB)
    peer.answer = ({"displayname": 5}, 200)
    assert await profiles.profile(BOB) == {}
    with pytest.raises(PeerError):
        await profiles.profile("@eve:nowhere.test")
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await profiles.profile("eve")


async def test_queries_are_answered_for_local_users_only(profiles: Profiles, peer: Peer) -> None:
    """With the whole profile or the requested field."""
    await profiles.ensure_user(ALICE)
    await profiles.set_profile(ALICE, displayname="Alice", **{"m.tz": "UTC"})
    assert await profiles.handle_query({"user_id": ALICE}) == {"displayname": "Alice", "m.tz": "UTC"}
    assert await profiles.handle_query({"user_id": ALICE, "field": "m.tz"}) == {"m.tz": "UTC"}
    assert await profiles.handle_query({"user_id": ALICE, "field": "avatar_url"}) == {}
    for user in (BOB, f"@nobody:{OWN_NAME}"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await profiles.handle_query({"user_id": user})
    assert peer.asked == []
