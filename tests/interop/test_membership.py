"""Joins, leaves, invites and knocks between a node and a real Synapse, in both directions."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from federation.http.server.tls import TlsFiles
from tests.federation.nodes import Node, nodes
from tests.support.matrix_client import MatrixClient
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.parametrize("version", ["10", "11", "12"])]
TIMEOUT = 60.0


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls()


async def heard_of(person: MatrixClient, user: str, membership: str) -> None:
    """Wait until the person has seen this membership of the user."""
    await person.wait_for(
        lambda event: event.get("state_key") == user and event["content"].get("membership") == membership
    )


async def talk(node: Node, ours: str, person: MatrixClient, room_id: str) -> None:
    """Check that each receives a message of the other."""
    await person.wait_for_event(await node.say(room_id, ours, "hello"))
    answer = await person.say(room_id, "good day")
    async with asyncio.timeout(TIMEOUT):
        await node.until(lambda event_id, _: event_id == answer)


def joinable_by_members_of(room_id: str) -> dict[str, Any]:
    return {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": room_id}]}


async def test_a_remote_user_joins_a_local_room(node: Node, synapse: Synapse, version: str) -> None:
    """By its alias; they exchange messages and leave."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create(version, alice)
    await node.homeserver.directory.create(f"#kitchen:{node.name}", room_id, alice)
    assert await bob.join(f"#kitchen:{node.name}", via=[node.name]) == room_id
    assert await node.membership_of(room_id, bob.user_id) == "join"
    await talk(node, alice, bob, room_id)
    await bob.leave(room_id)
    await node.until_member(room_id, bob.user_id, "leave")


async def test_a_local_user_joins_a_remote_room(node: Node, synapse: Synapse, version: str) -> None:
    """By its id; they exchange messages and leave."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await bob.create_room(version=version, preset="public_chat", name="Lobby")
    await node.membership.join(room_id, alice, [synapse.server_name], {"displayname": "Alice"})
    await talk(node, alice, bob, room_id)
    await node.membership.leave(room_id, alice)
    await heard_of(bob, alice, "leave")


async def test_a_remote_user_is_invited(node: Node, synapse: Synapse, version: str) -> None:
    """And accepts one invite, and rejects another."""
    alice, bob = node.user("alice"), await synapse.person()
    accepted, rejected = [await node.create(version, alice, "invite") for _ in range(2)]
    for room_id in (accepted, rejected):
        await node.membership.invite(room_id, alice, bob.user_id)
        await bob.wait_for_invite(room_id)
    await bob.join(accepted, via=[node.name])
    await talk(node, alice, bob, accepted)
    await bob.leave(rejected)
    await node.until_member(rejected, bob.user_id, "leave")


async def test_a_local_user_is_invited(node: Node, synapse: Synapse, version: str) -> None:
    """The invite shows the room in full events; one is accepted, another rejected."""
    alice, bob = node.user("alice"), await synapse.person()
    accepted, rejected = [await bob.create_room(version=version, invite=[alice], name="Theirs") for _ in range(2)]
    kept = await node.membership.outside_memberships(alice)
    assert len(kept) == 2
    assert all(b"Theirs" in invite.stripped_state for invite in kept)
    await node.membership.join(accepted, alice)
    await talk(node, alice, bob, accepted)
    await node.membership.leave(rejected, alice)
    await heard_of(bob, alice, "leave")


async def test_a_remote_user_knocks(node: Node, synapse: Synapse, version: str) -> None:
    """And is then invited."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create(version, alice, "knock")
    await bob.knock(room_id, via=[node.name])
    assert await node.membership_of(room_id, bob.user_id) == "knock"
    await node.membership.invite(room_id, alice, bob.user_id)
    await bob.wait_for_invite(room_id)
    await bob.join(room_id, via=[node.name])
    await talk(node, alice, bob, room_id)


async def test_a_local_user_knocks(node: Node, synapse: Synapse, version: str) -> None:
    """And retracts the knock."""
    alice, bob = node.user("alice"), await synapse.person()
    rule = {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": "knock"}}
    room_id = await bob.create_room(version=version, initial_state=[rule])
    await node.membership.knock(room_id, alice, [synapse.server_name], {"reason": "hungry"})
    await heard_of(bob, alice, "knock")
    await node.membership.leave(room_id, alice)
    await heard_of(bob, alice, "leave")


async def test_a_remote_user_joins_a_restricted_room(node: Node, synapse: Synapse, version: str) -> None:
    """A local user authorises the join, with the node's signature."""
    alice, bob = node.user("alice"), await synapse.person()
    condition = await node.create(version, alice)
    room_id = await node.create(version, alice, joinable_by_members_of(condition))
    await bob.join(condition, via=[node.name])
    await bob.join(room_id, via=[node.name])
    await talk(node, alice, bob, room_id)


async def test_a_local_user_joins_a_restricted_room(node: Node, synapse: Synapse, version: str) -> None:
    """A remote user authorises the join, and their server's signature is stored with the event."""
    alice, bob = node.user("alice"), await synapse.person()
    condition = await bob.create_room(version=version, preset="public_chat")
    rule = {"type": "m.room.join_rules", "state_key": "", "content": joinable_by_members_of(condition)}
    room_id = await bob.create_room(version=version, initial_state=[rule])
    await node.membership.join(condition, alice, [synapse.server_name])
    await node.membership.join(room_id, alice, [synapse.server_name])
    await talk(node, alice, bob, room_id)


async def test_a_remote_user_joins_with_partial_state(
    postgres_server: Server,
    migrated_template: str,
    authority: Authority,
    tmp_path: Path,
    synapse: Synapse,
    version: str,
) -> None:
    """The members are omitted; the Synapse requests them later, and the room works as any other."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted, in_full=0) as running:
        node = await running.start_over_tls()
        alice, bob = node.user("alice"), await synapse.person()
        room_id = await node.create(version, alice)
        for number in range(10):
            await node.membership.join(room_id, node.user(f"user{number}"))
        await bob.join(room_id, via=[node.name])
        await talk(node, alice, bob, room_id)
        # The response comes only when the whole state is known.
        assert len(await bob.members(room_id)) == 12
