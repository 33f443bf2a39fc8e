"""Joining, leaving, inviting and knocking between a node of ours and a real Synapse, in both directions."""

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
    """Over TLS, certified and trusting as the Synapses of the tests are."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls()


async def heard_of(person: MatrixClient, user: str, membership: str) -> None:
    """The person has seen the user's membership become that."""
    await person.wait_for(
        lambda event: event.get("state_key") == user and event["content"].get("membership") == membership
    )


async def talk(node: Node, ours: str, person: MatrixClient, room_id: str) -> None:
    """What one says the other hears, both ways."""
    await person.wait_for_event(await node.say(room_id, ours, "hello"))
    answer = await person.say(room_id, "good day")
    async with asyncio.timeout(TIMEOUT):
        await node.until(lambda event_id, _: event_id == answer)


def joinable_by_members_of(room_id: str) -> dict[str, Any]:
    return {"join_rule": "restricted", "allow": [{"type": "m.room_membership", "room_id": room_id}]}


async def test_somebody_there_joins_a_room_of_ours(node: Node, synapse: Synapse, version: str) -> None:
    """By its alias; they talk; and leave."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create(version, alice)
    await node.homeserver.directory.create(f"#kitchen:{node.name}", room_id, alice)
    assert await bob.join(f"#kitchen:{node.name}", via=[node.name]) == room_id
    assert await node.membership_of(room_id, bob.user_id) == "join"
    await talk(node, alice, bob, room_id)
    await bob.leave(room_id)
    await node.until_member(room_id, bob.user_id, "leave")


async def test_somebody_here_joins_a_room_of_theirs(node: Node, synapse: Synapse, version: str) -> None:
    """By its id; they talk; and leave."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await bob.create_room(version=version, preset="public_chat", name="Lobby")
    await node.membership.join(room_id, alice, [synapse.server_name], {"displayname": "Alice"})
    await talk(node, alice, bob, room_id)
    await node.membership.leave(room_id, alice)
    await heard_of(bob, alice, "leave")


async def test_somebody_there_is_invited(node: Node, synapse: Synapse, version: str) -> None:
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


async def test_somebody_here_is_invited(node: Node, synapse: Synapse, version: str) -> None:
    """Is shown the room, in full events; accepts one invite, and rejects another."""
    alice, bob = node.user("alice"), await synapse.person()
    accepted, rejected = [
        await bob.create_room(version=version, invite=[alice], name="Theirs") for _ in range(2)
    ]
    kept = await node.membership.outside_memberships(alice)
    assert len(kept) == 2
    assert all(b"Theirs" in invite.stripped_state for invite in kept)
    await node.membership.join(accepted, alice)
    await talk(node, alice, bob, accepted)
    await node.membership.leave(rejected, alice)
    await heard_of(bob, alice, "leave")


async def test_somebody_there_knocks(node: Node, synapse: Synapse, version: str) -> None:
    """Is heard, and invited in."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create(version, alice, "knock")
    await bob.knock(room_id, via=[node.name])
    assert await node.membership_of(room_id, bob.user_id) == "knock"
    await node.membership.invite(room_id, alice, bob.user_id)
    await bob.wait_for_invite(room_id)
    await bob.join(room_id, via=[node.name])
    await talk(node, alice, bob, room_id)


async def test_somebody_here_knocks(node: Node, synapse: Synapse, version: str) -> None:
    """Is heard, and goes away again."""
    alice, bob = node.user("alice"), await synapse.person()
    rule = {"type": "m.room.join_rules", "state_key": "", "content": {"join_rule": "knock"}}
    room_id = await bob.create_room(version=version, initial_state=[rule])
    await node.membership.knock(room_id, alice, [synapse.server_name], {"reason": "hungry"})
    await heard_of(bob, alice, "knock")
    await node.membership.leave(room_id, alice)
    await heard_of(bob, alice, "leave")


async def test_somebody_there_joins_for_being_in_another_room(
    node: Node, synapse: Synapse, version: str
) -> None:
    """A user of ours vouches, and our signature is what they need."""
    alice, bob = node.user("alice"), await synapse.person()
    condition = await node.create(version, alice)
    room_id = await node.create(version, alice, joinable_by_members_of(condition))
    await bob.join(condition, via=[node.name])
    await bob.join(room_id, via=[node.name])
    await talk(node, alice, bob, room_id)


async def test_somebody_here_joins_for_being_in_another_room(
    node: Node, synapse: Synapse, version: str
) -> None:
    """A user of theirs vouches, and their signature is kept with the event."""
    alice, bob = node.user("alice"), await synapse.person()
    condition = await bob.create_room(version=version, preset="public_chat")
    rule = {"type": "m.room.join_rules", "state_key": "", "content": joinable_by_members_of(condition)}
    room_id = await bob.create_room(version=version, initial_state=[rule])
    await node.membership.join(condition, alice, [synapse.server_name])
    await node.membership.join(room_id, alice, [synapse.server_name])
    await talk(node, alice, bob, room_id)


async def test_somebody_there_is_given_the_short_form(
    postgres_server: Server,
    migrated_template: str,
    authority: Authority,
    tmp_path: Path,
    synapse: Synapse,
    version: str,
) -> None:
    """The members are left out; the Synapse asks for them, and is in the room as in any other."""
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
        # Answered only when all of the state has come.
        assert len(await bob.members(room_id)) == 12
