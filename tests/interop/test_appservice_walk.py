"""People of a Synapse and a node attached to it, created from its configuration alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge.people.service.messenger import CANNOT_READ
from tests.interop.appservice_node import appservice_company
from tests.interop.staffed_node import Company, answers, edits, in_state, says, until_gone, until_reaction
from tests.support.matrix_client import MatrixClient
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("appservice walk")]
ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


@pytest.fixture(scope="module")
async def here(palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Company]:
    """One node and one Synapse for all of these tests; a test that stops one of them starts it again."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapses"), authority)
    try:
        synapse = await factory(start=False)
        async with appservice_company(palaver, authority, synapse) as made:
            yield made
    finally:
        await factory.clean_up()


async def test_agents_are_found_on_the_homeserver(here: Company) -> None:
    """Their room is found by its alias and in the directory; they have display names and avatars, as on a
    Palaver homeserver. Only the node's users are in it, and it is not encrypted."""
    node, bob = here.node, here.bob
    alias = f"#agents-default:{node.server_name}"
    assert (await bob.resolve(alias))["room_id"] == here.room_id
    listed = {room["room_id"]: room for room in await bob.public_rooms()}
    assert listed[here.room_id]["canonical_alias"] == alias
    for agent_id in ("cook", "baker"):
        await bob.wait_until(in_state(here.room_id, "m.room.member", node.user(agent_id)))
    members = await bob.joined_members(here.room_id)
    people = {person.user_id for person in (here.alice, bob, here.carol)}
    ours = {user: known for user, known in members.items() if user not in people}
    assert {user: known.get("display_name") for user, known in ours.items()} == {
        node.user("cook"): "cook",
        node.user("baker"): "The baker",
        node.user("palaver"): "Palaver",
    }
    for known in ours.values():
        face = await bob.download(known["avatar_url"])
        assert face.data.startswith(b"\x89PNG")
    state = await bob.full_state(here.room_id)
    assert ("m.room.encryption", "") not in state
    assert state["m.room.create", ""]["content"]["room_version"] == "12"


async def test_an_agent_gets_a_task_in_a_thread(here: Company) -> None:
    """By a mention. Its progress is one message and its answer another; a reply in the thread continues it.
    Messages have the time at which they were sent."""
    node, alice, bob = here.node, here.alice, here.bob
    cook = node.user("cook")
    script = (
        "echo peeling >&2; until [ -e peeled ]; do sleep 0.1; done;"
        "echo cutting >&2; until [ -e cut ]; do sleep 0.1; done; echo '**Soup.**'"
    )
    asked = await here.mention(alice, "cook", script)
    await until_reaction(bob, asked, "⏳")
    progress = await bob.wait_for(answers(asked, "peeling", sender=cook))
    here.go_on("peeled")
    await bob.wait_for(edits(progress["event_id"], "cutting"))
    here.go_on("cut")
    answer = await bob.wait_for(answers(asked, "**Soup.**", sender=cook))
    assert answer["content"]["formatted_body"] == "<p><strong>Soup.</strong></p>"
    await until_reaction(bob, asked, "✅")
    thread = [event["event_id"] for event in await bob.relations(here.room_id, asked, "m.thread")]
    assert thread == [answer["event_id"], progress["event_id"]]
    times = [
        (await bob.event(here.room_id, event_id))["origin_server_ts"]
        for event_id in (asked, progress["event_id"], answer["event_id"])
    ]
    assert times == sorted(times)

    await alice.reply_in_thread(here.room_id, asked, 'printf "%s" "$PALAVER_TASK_CONTEXT" | sed "s/^/| /"')
    context = await alice.wait_for(answers(asked, "| ", sender=cook))
    assert f"| {cook}: **Soup.**" in context["content"]["body"]


async def test_a_cancelled_task_ends(here: Company) -> None:
    """The command and all its child processes have ended, and the thread names the person who cancelled
    it."""
    alice = here.alice
    asked = await here.mention(alice, "cook", "sleep 1000 & echo $! >child; echo $$ >cook; wait")
    child, cook = await here.written("child"), await here.written("cook")
    await alice.react(here.room_id, asked, "❌")
    await alice.wait_for(answers(asked, f"❌ Cancelled by {alice.user_id}."))
    await until_reaction(alice, asked, "❌")
    await until_gone(child)
    await until_gone(cook)


async def test_a_refusal_names_the_permission(here: Company) -> None:
    """As configured."""
    bob = here.bob
    await here.mention(bob, "cook", "echo hello >refused")
    await bob.wait_for(
        says(
            'You need the permission "work" to give tasks',
            f'the rule "{here.synapse.server_name}" = "look"',
            sender=here.node.user("palaver"),
        )
    )
    await here.asked_again()
    assert not (here.node.work / "refused").exists()


async def chat_with(who: MatrixClient, user: str, *initial_state: dict[str, Any]) -> str:
    room_id = await who.create_room(
        preset="trusted_private_chat", invite=[user], is_direct=True, initial_state=initial_state
    )
    await who.wait_for_member(room_id, user, "join")
    return room_id


async def test_an_agent_answers_in_a_direct_chat(here: Company) -> None:
    """Without a mention; the node's own user answers its commands there."""
    node, alice = here.node, here.alice
    chat = await chat_with(alice, node.user("baker"))
    asked = await alice.say(chat, "A cake, please.")
    answer = await alice.wait_for(says("A cake, please.", sender=node.user("baker")), room_id=chat)
    assert answer["content"]["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}
    tasks = await chat_with(alice, node.user("palaver"))
    await alice.say(tasks, "agents")
    await alice.wait_for(says(f"- {node.address('baker')} · idle · command · task_execution, messaging"), room_id=tasks)


async def test_an_encrypted_chat_gets_one_notice(here: Company) -> None:
    """However many messages it has."""
    node, alice = here.node, here.alice
    secret = await chat_with(alice, node.user("baker"), ENCRYPTION)
    for _ in range(2):
        await alice.send(secret, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
    await alice.wait_for(says(CANNOT_READ), room_id=secret)
    # Invites and messages are handled in order.
    await chat_with(alice, node.user("cook"))
    await here.asked_again()
    said = [event for event in await alice.history(secret) if event["sender"] == node.user("baker")]
    assert [event["content"]["body"] for event in said if event["type"] == "m.room.message"] == [CANNOT_READ]


async def test_a_published_node_sends_a_task(here: Company) -> None:
    """By the published protocol. People see a thread, and the node gets the answer."""
    node, peer, bob = here.node, here.kitchen, here.bob
    url = node.url("", "http")
    assert (await peer.send(url, peer.registered()))[0] == 200
    wanted = {"task_id": "soup", "prompt": "echo Soup.", "context": "", "metadata": {}}
    assert (await peer.send(url, peer.request(node.address("cook"), task=wanted)))[0] == 200
    root = await bob.wait_for(says(f"old-1@{peer.name} asks {node.address('cook')} (soup)"))
    await bob.wait_for(answers(root["event_id"], "Soup.", sender=node.user("cook")))
    told = (await peer.next("task.response"))["content"]["payload"]["result"]
    assert (told["success"], told["output"].strip()) == (True, "Soup.")
