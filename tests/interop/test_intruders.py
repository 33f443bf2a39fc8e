"""Forbidden events and servers, between a node as a process and a real Synapse."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from federation.auth_rules import auth_event_keys
from federation.client.requests import request_target
from federation.events import Pdu, Template, build
from federation.http.server.tls import TlsFiles
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from storage.connect import DatabaseAddress
from tests.federation.nodes import Node, nodes, now_ms, signer_of
from tests.support.driven_node import DrivenNode
from tests.support.driven_node.fixtures import DrivenNodeFactory
from tests.support.driven_node.walking import refused, shared_room, talk
from tests.support.matrix_client import Refused
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("walk")]
versions = pytest.mark.parametrize("version", ["10", "11", "12"])
ACL = "m.room.server_acl"
OPEN: dict[str, Any] = {"allow": ["*"], "deny": []}
TIMEOUT = 60.0
# The numbers of the rules against state without the power for it, and against such a kick.
RULES = {"10": ("7", "4.5.5", "7"), "11": ("7", "4.5.5", "7"), "12": ("8", "5.5.5", "8")}


@pytest.fixture
async def third(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path, third_server: str
) -> AsyncIterator[Node]:
    """A third server, whose key the test holds."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "third")
    trusted = authority.write(tmp_path, "ca")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        yield await running.start_over_tls(third_server)


async def forge(
    third: Node, room_id: str, version: str, type_: str, sender: str, content: Any, state_key: str | None = None
) -> Pdu:
    """Return an event at the head of the room as that server sees it, well formed and signed by it, whether
    allowed or not."""
    room = await third.graph.room(room_id)
    assert room is not None
    heads = await third.graph.events(room.forward_extremities)
    state = await third.graph.current_state(room_id)
    template = Template(
        type_, sender, content, now_ms(), room_id=room_id, state_key=state_key,
        prev_events=list(heads), prev_depths=[head.depth for head in heads.values()],
    )  # fmt: skip
    switches = ROOM_VERSIONS[version]
    auth = [state[key] for key in auth_event_keys(template, switches) if key in state]
    whole = {name: getattr(template, name) for name in template.__slots__} | {"auth_events": auth}
    made = build(Template(**whole), switches, signer_of(third.name))
    assert isinstance(made, Pdu), made
    return made


@versions
async def test_forbidden_events_change_nothing(
    quiet_node: DrivenNode, synapse: Synapse, third: Node, version: str
) -> None:
    """A server in the room sends an event without the power for it, and a forged event of a local user. The
    former is rejected by its auth rule, the latter dropped. Neither is shown, and the room goes on."""
    alice, bob = await quiet_node.user("alice"), await synapse.person()
    mallory = third.user("mallory")
    room_id = await shared_room(alice, bob, version=version)
    await third.membership.join(room_id, mallory, [alice.server_name])
    await alice.wait_for_member(room_id, mallory, "join")
    levels = await alice.power_levels(room_id)

    coup = {**levels, "users": {**levels["users"], mallory: 100}}
    rejected = [
        await forge(third, room_id, version, "m.room.power_levels", mallory, coup, ""),
        await forge(third, room_id, version, "m.room.member", mallory, {"membership": "leave"}, bob.user_id),
        await forge(third, room_id, version, ACL, mallory, {"deny": ["*"]}, ""),
    ]
    dropped = await forge(third, room_id, version, "m.room.message", alice.user_id, {"body": "I resign."})
    body = {"origin": third.name, "origin_server_ts": now_ms(), "pdus": [pdu.event for pdu in (*rejected, dropped)]}
    target = request_target("/_matrix/federation/v1/send/{txnId}", txnId=secrets.token_hex(8))
    answer = await third.client.request("PUT", quiet_node.server_name, target, body)
    assert set(answer["pdus"]) == {pdu.event_id for pdu in (*rejected, dropped)}

    fates = await quiet_node.call("fates", room_id=room_id)
    for pdu, rule in zip(rejected, RULES[version], strict=True):
        verdict, refusal = fates[pdu.event_id]
        assert (verdict, refusal.partition(":")[0]) == ("rejected", rule)
    assert dropped.event_id not in fates

    await talk(room_id, alice, bob)
    said = await third.say(room_id, mallory, "It was worth a try.")
    for person in (alice, bob):
        await person.wait_for_event(said)
        assert await person.power_levels(room_id) == levels
        assert (await person.members(room_id))[bob.user_id] == "join"
        seen = {event["event_id"] for event in await person.history(room_id)}
        assert seen.isdisjoint(pdu.event_id for pdu in (*rejected, dropped))
    await third.membership.leave(room_id, mallory)
    await alice.wait_for_member(room_id, mallory, "leave")


@versions
async def test_a_server_acl_excludes_a_server(
    make_driven_node: DrivenNodeFactory, database_address: DatabaseAddress, synapse: Synapse, version: str
) -> None:
    """Its users cannot join. After a later exclusion none of its events arrive, and after the end of it all
    is well."""
    # An ACL looks at the host without the port.
    node = await make_driven_node([synapse.server_name], database=database_address, host="127.0.0.1")
    alice, bob = await node.user("alice"), await synapse.person()
    for host, guest, name in ((alice, bob, "localhost"), (bob, alice, "127.0.0.1")):
        closed = {"allow": ["*"], "deny": [name]}
        initially = {"type": ACL, "state_key": "", "content": closed}
        room_id = await host.create_room(version=version, preset="public_chat", initial_state=[initially])
        await refused(guest.join(room_id, via=[host.server_name]))
        await host.set_state(room_id, ACL, OPEN)
        await guest.join(room_id, via=[host.server_name])
        await talk(room_id, host, guest)

        await guest.wait_for_event(await host.set_state(room_id, ACL, closed))
        unheard = await guest.say(room_id, "Can you hear me?")
        if host is alice:
            async with asyncio.timeout(TIMEOUT):
                while not await node.metric("palaver_federation_pdus_received_total", verdict="dropped"):
                    await asyncio.sleep(0.05)
            assert node.complaints() == []
        else:
            line = await node.logged("A server rejected an event.")
            assert (line["event_id"], line["server"]) == (unheard, host.server_name)
        with pytest.raises(Refused):
            await host.event(room_id, unheard)
        await guest.wait_for_event(await host.set_state(room_id, ACL, OPEN))
        await talk(room_id, host, guest)


async def test_a_server_that_is_no_peer_is_refused(
    quiet_node: DrivenNode, postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path
) -> None:
    """Even with a valid certificate: its users cannot join here, and local users cannot join there."""
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "stranger")
    trusted = authority.write(tmp_path, "ca")
    alice = await quiet_node.user("alice")
    ours = await alice.create_room(preset="public_chat")
    async with nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted) as running:
        stranger = await running.start_over_tls()
        mallory = stranger.user("mallory")
        with pytest.raises(MatrixError) as refusal:
            await stranger.membership.join(ours, mallory, [quiet_node.server_name])
        assert refusal.value.status == 403
        theirs = await stranger.create("12", mallory)
        with pytest.raises(Refused, match="is not a server that this server federates with"):
            await alice.join(theirs, via=[stranger.name])
        assert stranger.seen.answered == []
