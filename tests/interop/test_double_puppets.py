"""A node attached to a real Synapse that sends as people of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.interop.appservice_node import appservice_company
from tests.interop.staffed_node import TIMEOUT, Company, answers, is_said, relation, says, until_reaction
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("double puppets")]

ENABLED = """
[double_puppet]
enabled = true
"""


@pytest.fixture(scope="module")
async def here(palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Company]:
    """One node and one Synapse. A test that changes the registration restores it."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapses"), authority)
    try:
        synapse = await factory(start=False)
        async with appservice_company(palaver, authority, synapse, more=ENABLED) as made:
            yield made
    finally:
        await factory.clean_up()


async def test_a_task_in_a_persons_name_is_the_persons_message(here: Company) -> None:
    """Through the second registration. The message begins the thread and is handled once, also when the node
    is killed; the person can cancel the task. The person's permissions apply, and the first registration
    cannot send as the person."""
    node, alice, baker = here.node, here.alice, here.node.user("baker")
    send = ("task", "send", "--no-wait", "--as")
    code, given = await node.cli(*send, alice.user_id, "baker", "Bread for two")
    assert code == 0, given
    assert given["from"] == f"alice:{here.synapse.server_name}@kitchen.local"
    root = await alice.wait_for(says("baker: Bread for two", sender=alice.user_id))
    assert root["content"]["fi.mau.double_puppet_source"] == "palaver"
    assert root["content"]["m.mentions"] == {"user_ids": [baker]}
    await alice.wait_for(answers(root["event_id"], "Bread for two", sender=baker))

    begun = "touch begun; until test -e go; do sleep 0.1; done; echo cooked"
    code, given = await node.cli(*send, alice.user_id, "cook", begun)
    assert code == 0, given
    second = await alice.wait_for(says("cook: touch begun", sender=alice.user_id))
    async with asyncio.timeout(TIMEOUT):
        while not (node.work / "begun").exists():
            await asyncio.sleep(0.05)
    await node.kill()
    await node.start()
    code, third_given = await node.cli(*send, alice.user_id, "cook", "sleep 600")
    assert code == 0, third_given
    third = await alice.wait_for(says("cook: sleep 600", sender=alice.user_id))
    await until_reaction(alice, third["event_id"], "⏳")
    await alice.react(here.room_id, third["event_id"], "❌")
    await alice.wait_for(
        lambda event: relation(event) == ("m.annotation", third["event_id"], "❌") and event["sender"] != alice.user_id
    )
    here.go_on("go")
    await here.asked_again()
    history = await alice.history(here.room_id)
    said = [event["event_id"] for event in history if is_said(event) and event["sender"] == alice.user_id]
    assert said[:3] == [root["event_id"], second["event_id"], third["event_id"]]
    assert len(said) == 4

    code, refused = await node.cli(*send, here.bob.user_id, "baker", "Bread?")
    assert (code, "permission" in refused["problem"]) == (1, True), refused
    code, refused = await node.cli(*send, "@alice:another.test", "baker", "Bread?")
    assert code == 1, refused
    code, checked = await node.cli("registration", "--check")
    assert (code, checked["wrong"]) == (0, []), checked


async def test_a_homeserver_without_the_second_registration(here: Company) -> None:
    """The node works and reports it; it sends requests in a person's name as itself."""
    node, alice = here.node, here.alice
    registration = node.directory / "double-puppet.yaml"
    before = registration.read_text()
    code, written = await node.cli("registration", "--double-puppet", "--new-tokens")
    assert code == 0, written
    await node.kill()
    await node.start()
    logged = await node.logged("The node cannot send messages as people.")
    assert "double-puppet.yaml to its configuration" in logged["reason"]
    code, checked = await node.cli("registration", "--check")
    assert code == 1
    assert any("token for double puppets" in sentence for sentence in checked["wrong"])
    code, given = await node.cli("task", "send", "--no-wait", "--as", alice.user_id, "baker", "Bread for three")
    assert code == 0, given
    said = await alice.wait_for(says(f"{alice.user_id} asks baker@kitchen.local"))
    assert said["sender"] == node.user("palaver")
    registration.write_text(before)
    await node.kill()
    await node.start()
