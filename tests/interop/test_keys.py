"""Server keys, and device queries, between a node and real Synapses."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from federation.client.requests import request_target
from federation.http.server.tls import TlsFiles
from federation.keys.key_documents import KeyDocument, NotaryKeys, parse_key_document
from federation.matrix.signatures import VerifyKey
from tests.federation.http.key_nodes import KeyNodes
from tests.federation.nodes import Node, keys_of, now_ms
from tests.support.matrix_client import Homeserver
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop

V1 = "/_matrix/federation/v1"
QUERY = "/_matrix/key/v2/query"
KEY_SERVER = request_target("/_matrix/key/v2/server")


@pytest.fixture
async def node(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> AsyncIterator[Node]:
    """Over TLS, with a certificate of the Synapses' authority, which it trusts."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with AsyncExitStack() as stack:
        nodes = KeyNodes(postgres_server, migrated_template, stack, TlsFiles(*issued), trusted)
        yield await nodes.start_over_tls()


def answered(node: Node, route: str) -> list[int]:
    """Return the statuses of the node's responses on that route."""
    return [status for template, _, status in node.seen.answered if template == route]


async def test_the_node_is_a_notary_for_a_synapse(node: Node, synapse: Synapse) -> None:
    """The response has its signature and the node's; both are valid."""
    us = keys_of(node.name).current
    vouching = NotaryKeys(node.name, {us.key_id: VerifyKey(bytes(us.signing_key.verify_key), now_ms())})
    published = await node.client.request("GET", synapse.server_name, KEY_SERVER, signed=False)
    here = Homeserver(f"https://{node.name}", synapse.homeserver._tls)
    question = {"server_keys": {synapse.server_name: {}, "localhost:1": {}}}
    answers = [
        await here.request("POST", QUERY, json=question),
        await here.request("GET", f"{QUERY}/{synapse.server_name}"),
    ]
    await here.close()
    for answer in answers:
        [document] = answer["server_keys"]
        believed = parse_key_document(document, synapse.server_name, now_ms(), vouching)
        assert isinstance(believed, KeyDocument), believed
        assert {one.key_id for one in believed.keys} == set(published["verify_keys"])


async def test_a_synapse_uses_the_node_as_its_notary(
    node: Node, synapse: Synapse, make_synapse: SynapseFactory
) -> None:
    """It asks the node, and not the origin, for the key that signed a user's join."""
    us = keys_of(node.name).current
    trusted = {"server_name": node.name, "verify_keys": {us.key_id: us.public}}
    trusting = await make_synapse(settings={"trusted_key_servers": [trusted]})
    alice, bob = await trusting.person(), await synapse.person()
    room_id = await alice.create_room(preset="public_chat")
    await bob.join(room_id, via=[trusting.server_name])
    assert set(answered(node, QUERY)) == {200}
    assert trusting.requests_made("query", to=node.name)
    assert trusting.requests_made("server", to=synapse.server_name) == []


async def test_local_users_have_no_devices(node: Node, synapse: Synapse) -> None:
    """Queries and key claims do not fail, with or without a shared room."""
    alice, bob = node.user("alice"), await synapse.person()
    claim = {"one_time_keys": {alice: {"ABC": "signed_curve25519"}}}
    for shared in (False, True):
        if shared:
            room_id = await bob.create_room(preset="public_chat", version="12")
            await node.membership.join(room_id, alice, [synapse.server_name], {})
        found = await bob.call("POST", "v3/keys/query", json={"device_keys": {alice: []}})
        assert found["failures"] == {}
        assert not found["device_keys"].get(alice)
        claimed = await bob.call("POST", "v3/keys/claim", json=claim)
        assert (claimed["failures"], claimed["one_time_keys"]) == ({}, {})
    asked = {request.endpoint for request in synapse.requests_made(to=node.name)}
    assert "user/keys" in asked
    assert set(answered(node, f"{V1}/user/keys/query")) == {200}
    assert set(answered(node, f"{V1}/user/keys/claim")) == {200}
    assert set(answered(node, f"{V1}/user/devices/{{user_id}}")) <= {200}
