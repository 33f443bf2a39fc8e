"""Sending from the outbox to a real Synapse, and its ephemeral events."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from federation.http.server.tls import TlsFiles
from federation.transactions.edu_dispatcher import TypingUsers
from federation.transactions.edus import Receipt, Typing
from federation.transactions.outgoing_edus import receipt, typing
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls()


async def test_typing_and_receipts_are_exchanged(node: Node, synapse: Synapse) -> None:
    """In both directions."""
    alice, bob = node.user("alice"), await synapse.person()
    room_id = await node.create("12", alice)
    await bob.join(room_id, via=[node.name])
    said = await node.say(room_id, alice, "Go on.")
    await bob.wait_for_event(said)
    node.outbox.send_lossy([synapse.server_name], typing(Typing(room_id, alice, True)))
    await bob.wait_until(lambda seen: alice in seen.typing[room_id])
    answer = await bob.say(room_id, "Well.")
    async with asyncio.timeout(60):
        await node.until(lambda event_id, _: event_id == answer)
    node.outbox.send_lossy([synapse.server_name], receipt(Receipt(room_id, alice, answer, 1)))
    await bob.wait_until(lambda seen: seen.read[room_id].get(alice) == answer)
    await bob.typing(room_id)
    await bob.read(room_id, said)
    async with asyncio.timeout(60):
        await node.heard.until(lambda edu: edu == TypingUsers(room_id, (bob.user_id,)))
        await node.heard.until(lambda edu: isinstance(edu, Receipt) and edu.event_id == said)


async def test_a_killed_synapse_gets_what_it_missed(node: Node, make_synapse: SynapseFactory) -> None:
    """In order, once each, as soon as it is back."""
    other = await make_synapse()
    alice, bob = node.user("alice"), await other.person()
    room_id = await node.create("12", alice)
    await bob.join(room_id, via=[node.name])
    await bob.wait_for_event(await node.say(room_id, alice, "before"))
    await other.kill()
    missed = [await node.say(room_id, alice, f"missed {number}") for number in range(20)]
    await other.start()
    await bob.wait_for_event(missed[-1])
    got = [event["event_id"] for event in await bob.history(room_id)]
    assert [event_id for event_id in got if event_id in missed] == missed
