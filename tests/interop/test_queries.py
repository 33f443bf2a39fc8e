"""Aliases, profiles, room lists and spaces, between a node and a real Synapse, both ways."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from federation.directory.public_rooms import from_body, from_query
from federation.http.server.tls import TlsFiles
from federation.http.services import QueryServices
from tests.federation.http.query_pair import create_space, furnish, put_child, queries_of
from tests.federation.nodes import Node, Nodes
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.homeserver import Refused
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = pytest.mark.interop


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with AsyncExitStack() as stack:
        nodes = Nodes(postgres_server, migrated_template, stack, TlsFiles(*issued), trusted)
        yield await nodes.start_over_tls()


@pytest.fixture
async def queries(node: Node) -> AsyncIterator[QueryServices]:
    services = queries_of(node)
    await services.profiles.start()
    yield services
    await services.profiles.close()
    await services.spaces.close()


async def space_of(person: MatrixClient, **how: object) -> str:
    """Return a space of that person."""
    return await person.create_room(
        preset="public_chat",
        creation_content={"type": "m.space"},
        **how,  # type: ignore[arg-type]
    )


async def add_child(person: MatrixClient, space: str, room_id: str, via: str, order: str) -> None:
    await person.set_state(space, "m.space.child", {"via": [via], "order": order}, room_id)


async def test_a_local_alias_is_resolved_remotely(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """And used to join; an unknown one is not found."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create("12", alice)
    await queries.directory.create(f"#küche:{node.name}", room_id, alice)
    assert await bob.resolve(f"#küche:{node.name}") == {"room_id": room_id, "servers": [node.name]}
    assert await bob.join(f"#küche:{node.name}") == room_id
    with pytest.raises(Refused) as refused:
        await bob.resolve(f"#none:{node.name}")
    assert refused.value.status == 404


async def test_a_remote_alias_is_resolved(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """An unknown one is not found."""
    bob = await synapse.person()
    room_id = await bob.create_room(preset="public_chat", alias="lobby-of-queries")
    found = await queries.directory.resolve(f"#lobby-of-queries:{synapse.server_name}")
    assert found == (room_id, (synapse.server_name,))
    assert await queries.directory.resolve(f"#none:{synapse.server_name}") is None


async def test_a_local_profile_is_seen_remotely(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """By a query, and in shared rooms as soon as it changes."""
    alice, bob = node.user("alice"), await synapse.person()
    await queries.profiles.ensure_user(alice)
    await queries.profiles.set_profile(alice, displayname="Älice", avatar_url="mxc://here/alice")
    profile = await bob.profile(alice)
    assert (profile["displayname"], profile["avatar_url"]) == ("Älice", "mxc://here/alice")
    with pytest.raises(Refused) as refused:
        await bob.profile(node.user("nobody"))
    assert refused.value.status == 404
    room_id = await node.create("12", alice)
    await bob.join(room_id, via=[node.name])
    await queries.profiles.set_profile(alice, displayname="Alice")
    await bob.wait_for(lambda event: event["content"].get("displayname") == "Alice")
    assert (await bob.joined_members(room_id))[alice]["display_name"] == "Alice"


async def test_a_remote_profile_is_read(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """An unknown one is not found."""
    bob = await synapse.person()
    await bob.set_display_name("Bøb")
    profile = await queries.profiles.profile(bob.user_id)
    assert profile is not None
    assert profile["displayname"] == "Bøb"
    assert await queries.profiles.profile(f"@nobody-there:{synapse.server_name}") is None


async def test_the_local_room_list_is_read_remotely(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """Page by page, and with a search."""
    alice, bob = node.user("alice"), await synapse.person()
    for name in ("Kitchen", "Cellar", "Soup Kitchen"):
        room_id = await node.create("12", alice)
        await furnish(node, room_id, alice, name={"name": name}, topic={"topic": f"The {name}"})
        await queries.directory.publish(room_id, True)
    listed = await bob.public_rooms(server=node.name)
    assert {room["name"] for room in listed} == {"Kitchen", "Cellar", "Soup Kitchen"}
    assert all((room["num_joined_members"], room["join_rule"]) == (1, "public") for room in listed)
    found = await bob.public_rooms(server=node.name, search="kitchen")
    assert {room["name"] for room in found} == {"Kitchen", "Soup Kitchen"}
    pages, since = [], None
    while True:
        body = {"limit": 1, **({} if since is None else {"since": since})}
        page = await bob.call("POST", "v3/publicRooms", query={"server": node.name}, json=body)
        pages.append([room["name"] for room in page["chunk"]])
        since = page.get("next_batch")
        if since is None:
            break
    assert sorted(pages) == [["Cellar"], ["Kitchen"], ["Soup Kitchen"]]


async def test_a_remote_room_list_is_read(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """Page by page, and with a search."""
    bob = await synapse.person()
    rooms = [
        await bob.create_room(preset="public_chat", name=f"Lobby of queries {number}", published=True)
        for number in range(3)
    ]
    everything: dict[str, str] = {}
    since = ""
    while True:
        question = from_query({"limit": "1", "since": since}, remote=True)
        page = await queries.public_rooms.remote(synapse.server_name, question)
        everything |= {room["room_id"]: room.get("name", "") for room in page["chunk"]}
        since = page.get("next_batch", "")
        if not since:
            break
    assert set(rooms) <= set(everything)
    search = from_body({"filter": {"generic_search_term": "queries"}}, remote=True)
    found = await queries.public_rooms.remote(synapse.server_name, search)
    assert set(rooms) <= {room["room_id"] for room in found["chunk"]}
    assert all("queries" in room["name"] for room in found["chunk"])


async def test_a_local_space_is_read_remotely(node: Node, synapse: Synapse) -> None:
    """Also through a nested space and to a room that only this node knows; closed rooms are not shown."""
    alice, bob = node.user("alice"), await synapse.person()
    space, inner = await create_space(node, alice), await create_space(node, alice)
    room_id, deep = await node.create("12", alice), await node.create("11", alice)
    closed = await node.create("12", alice, "invite")
    await furnish(node, deep, alice, name={"name": "Deep"})
    for number, child in enumerate((room_id, inner, closed)):
        await put_child(node, space, child, alice, order=str(number), suggested=child == inner)
    await put_child(node, inner, deep, alice, suggested=True)
    await bob.join(space, via=[node.name])
    rooms = await bob.hierarchy(space)
    assert [room["room_id"] for room in rooms] == [space, room_id, inner, deep]
    assert rooms[3]["name"] == "Deep"
    assert [one["state_key"] for one in rooms[2]["children_state"]] == [deep]
    suggested = await bob.hierarchy(space, suggested_only=True)
    assert [room["room_id"] for room in suggested] == [space, inner, deep]


async def test_a_remote_space_is_read(node: Node, queries: QueryServices, synapse: Synapse) -> None:
    """As a member and as a non-member; also to a local room."""
    alice, bob = node.user("alice"), await synapse.person()
    space, inner = await space_of(bob, name="Outer"), await space_of(bob, name="Inner")
    room_id = await bob.create_room(preset="public_chat", name="Lobby")
    closed, ours = await bob.create_room(), await node.create("12", alice)
    for number, child in enumerate((room_id, inner, closed)):
        await add_child(bob, space, child, synapse.server_name, str(number))
    await add_child(bob, inner, ours, node.name, "0")
    there = synapse.server_name
    outside = await queries.spaces.hierarchy(space, alice, via=[there])
    assert [room["room_id"] for room in outside["rooms"]] == [space, room_id, inner, ours]
    assert [room.get("name") for room in outside["rooms"]] == ["Outer", "Lobby", "Inner", None]
    await node.membership.join(space, alice, [there])
    within = await queries.spaces.hierarchy(space, alice)
    assert [room["room_id"] for room in within["rooms"]] == [space, room_id, inner, ours]
