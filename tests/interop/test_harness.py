"""The test harness itself, checked with two real Synapses."""

from pathlib import Path

import pytest

from tests.support.matrix_client import Refused
from tests.support.postgres import Server
from tests.support.synapse import DidNotStart, Synapse
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = pytest.mark.interop

# The smallest picture there is.
GIF = bytes.fromhex("47494638396101000100800000ffffff00000021f90400000000002c00000000010001000002024401003b")


async def test_two_synapses_share_a_room(synapse: Synapse, make_synapse: SynapseFactory) -> None:
    """A room of version 12, joined by its alias over verified TLS, with messages and media both ways."""
    other = await make_synapse()
    alice, bob = await synapse.person(), await other.person()
    alias = f"lobby-{other.port}"
    room_id = await alice.create_room(version="12", preset="public_chat", name="Lobby", alias=alias)
    said_before = await alice.say(room_id, "Anybody there?")

    assert await bob.join(f"#{alias}:{synapse.server_name}", via=[synapse.server_name]) == room_id
    assert (await bob.state(room_id, "m.room.create"))["room_version"] == "12"
    joined = await alice.wait_for(lambda event: event.get("state_key") == bob.user_id, room_id=room_id)
    assert joined["content"]["membership"] == "join"

    answer = await bob.reply(room_id, said_before, "I am.")
    assert (await alice.wait_for_event(answer))["sender"] == bob.user_id
    edited = await alice.edit(room_id, said_before, "Anybody here?")
    assert (await bob.wait_for_event(edited))["content"]["m.new_content"]["body"] == "Anybody here?"
    assert said_before in {event["event_id"] for event in await bob.history(room_id)}

    for sender, reader in ((alice, bob), (bob, alice)):
        mxc = await sender.upload(GIF, "image/gif", filename="dot.gif")
        picture = await sender.send(room_id, "m.room.message", {"msgtype": "m.image", "body": "dot.gif", "url": mxc})
        url = (await reader.wait_for_event(picture))["content"]["url"]
        got = await reader.download(url)
        assert (got.data, got.content_type) == (GIF, "image/gif")

    asked = {request.endpoint for request in other.requests_made(to=synapse.server_name)}
    assert {"query/directory", "make_join", "send_join", "server", "send", "media/download"} <= asked


async def test_ephemeral_events_are_exchanged(synapse: Synapse, make_synapse: SynapseFactory) -> None:
    """Typing, receipts and presence."""
    other = await make_synapse()
    alice, bob = await synapse.person(), await other.person()
    room_id = await alice.create_room(invite=[bob.user_id])
    await bob.wait_for_invite(room_id)
    await bob.join(room_id, via=[synapse.server_name])

    await bob.typing(room_id)
    await alice.wait_until(lambda seen: bob.user_id in seen.typing[room_id])
    said = await alice.say(room_id, "Go on.")
    await bob.wait_for_event(said)
    await bob.read(room_id, said)
    await alice.wait_until(lambda seen: seen.read[room_id].get(bob.user_id) == said)
    await bob.set_presence("unavailable", "thinking")
    await alice.wait_until(lambda seen: seen.presence.get(bob.user_id, {}).get("status_msg") == "thinking")


@pytest.mark.parametrize("end", [Synapse.stop, Synapse.kill], ids=["stopped", "killed"])
async def test_a_restarted_synapse_catches_up(synapse: Synapse, make_synapse: SynapseFactory, end: type) -> None:
    """With the same name, keys and data, and with the events that it missed."""
    other = await make_synapse()
    alice, bob = await synapse.person(), await other.person()
    room_id = await alice.create_room(preset="public_chat")
    await bob.join(room_id, via=[synapse.server_name])
    await bob.wait_for_event(await alice.say(room_id, "Before"))

    await end(other)
    missed = await alice.say(room_id, "Meanwhile")
    await other.start()
    await bob.say(room_id, "Back")

    await bob.wait_for_event(missed)
    await alice.wait_for_text("Back", room_id=room_id)


async def test_a_wrong_certificate_is_refused(synapse: Synapse, tmp_path: Path) -> None:
    """Verification is on: otherwise no test here would check certificates."""
    stranger = SynapseFactory(tmp_path / "strangers", Authority("Somebody else"))
    try:
        other = await stranger()
        bob = await other.person()
        await bob.create_room(preset="public_chat", alias="lobby")
        alice = await synapse.person()
        with pytest.raises(Refused) as refused:
            await alice.join(f"#lobby:{other.server_name}")
        assert refused.value.errcode in {"M_UNKNOWN", "M_NOT_FOUND"}
        assert "certificate" in synapse.log.read_text()
    finally:
        await stranger.clean_up()


async def test_a_synapse_keeps_its_data_in_postgres(make_synapse: SynapseFactory, postgres_server: Server) -> None:
    """On demand; its schema is complete before anything is measured."""
    synapse = await make_synapse(postgres=postgres_server.address)
    assert await synapse.database.pending_updates() == 0
    alice = await synapse.person()
    room_id = await alice.create_room()
    said = await alice.say(room_id, "Kept")
    await synapse.restart()
    assert (await alice.event(room_id, said))["content"]["body"] == "Kept"
    assert synapse.cpu_seconds() > 0
    assert synapse.resident_bytes() > 0
    assert await synapse.metric("process_resident_memory_bytes") > 0


async def test_a_synapse_that_does_not_start_says_why(make_synapse: SynapseFactory) -> None:
    """The failure contains the reason, and no process is left."""
    with pytest.raises(DidNotStart, match="trusted_key_servers"):
        await make_synapse(settings={"trusted_key_servers": "nonsense"})
