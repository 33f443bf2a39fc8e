"""People of a real Synapse and a running node with agents, created from its configuration alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.people.service.messenger import CANNOT_READ
from tests.interop.staffed_node import (
    GUESTS,
    TIMEOUT,
    Company,
    answers,
    company,
    echo,
    edits,
    in_state,
    is_said,
    relation,
    repeated,
    says,
    until_gone,
    until_reaction,
)
from tests.support.matrix_client import MatrixClient
from tests.support.synapse.fixtures import SynapseFactory
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.process, pytest.mark.xdist_group("agents and people")]
ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}
THREADS = 200


@pytest.fixture(scope="module")
async def here(palaver: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Company]:
    """One node and one Synapse for all of these tests; a test that stops one of them starts it again."""
    factory = SynapseFactory(tmp_path_factory.mktemp("synapses"), authority)
    try:
        async with company(palaver, authority, await factory()) as made:
            yield made
    finally:
        await factory.clean_up()


async def test_people_read_the_work_of_agents(here: Company) -> None:
    """The rooms are found by their aliases, and the agents in them have display names. A task of an agent of
    another node is a thread: the request, the progress as one message, and the answer, which that node gets
    as well."""
    node, kitchen, bob = here.node, here.kitchen, here.bob
    federation = await bob.join(f"#agent-federation-default:{node.server_name}")
    assert federation == f"!agent-federation-default:{node.server_name}"
    assert "Used by programs." in (await bob.state(federation, "m.room.topic"))["topic"]
    broadcast = await bob.join(f"#agent-broadcast:{node.server_name}")
    for agent_id in ("cook", "baker"):
        await bob.wait_until(in_state(broadcast, "io.cis.agent.registered", agent_id))
        # Perhaps they were there before bob.
        await bob.wait_until(in_state(here.room_id, "m.room.member", node.user(agent_id)))
    members = await bob.joined_members(here.room_id)
    names = {user: known.get("display_name") for user, known in members.items()}
    assert names.items() >= {
        (node.user("cook"), "cook"),
        (node.user("baker"), "The baker"),
        (node.user("palaver"), "Palaver"),
    }

    url = node.url("", "http")
    assert (await kitchen.send(url, kitchen.registered()))[0] == 200
    script = (
        "echo peeling >&2; until [ -e peeled ]; do sleep 0.1; done;"
        "echo cutting >&2; until [ -e cut ]; do sleep 0.1; done; echo '**Soup.**'"
    )
    wanted = {"task_id": "soup", "prompt": script, "context": "", "metadata": {}}
    assert (await kitchen.send(url, kitchen.request(node.address("cook"), task=wanted)))[0] == 200
    root = await bob.wait_for(says(f"⏳ old-1@{kitchen.name} asks {node.address('cook')} (soup)", "echo"))
    assert root["sender"] == node.user("palaver")
    thread = root["event_id"]
    progress = await bob.wait_for(answers(thread, "peeling", sender=node.user("cook")))
    here.go_on("peeled")
    await bob.wait_for(edits(progress["event_id"], "cutting"))
    here.go_on("cut")
    answer = await bob.wait_for(answers(thread, "**Soup.**", sender=node.user("cook")))
    assert answer["content"]["formatted_body"] == "<p><strong>Soup.</strong></p>"
    await bob.wait_for(edits(thread, "✅ old-1"))
    assert [event["event_id"] for event in await bob.relations(here.room_id, thread, "m.thread")] == [
        answer["event_id"],
        progress["event_id"],
    ]
    told = (await kitchen.next("task.response"))["content"]["payload"]["result"]
    assert (told["success"], told["output"].strip()) == (True, "**Soup.**")


async def test_a_mentioned_agent_answers(here: Company) -> None:
    """With every form of mention. Code is formatted as code, and long output is a file. A reply in the thread
    continues it."""
    node, alice = here.node, here.alice
    cook = node.user("cook")
    asked = await here.mention(alice, "cook", r"printf 'All of **them**:\n```python\npeel()\n```\n'")
    answer = await alice.wait_for(answers(asked, "All of **them**:", sender=cook))
    assert answer["content"]["formatted_body"] == (
        '<p>All of <strong>them</strong>:</p>\n<pre><code class="language-python">peel()\n</code></pre>'
    )

    await alice.reply_in_thread(here.room_id, asked, 'printf "%s" "$PALAVER_TASK_CONTEXT" | sed "s/^/| /"')
    context = await alice.wait_for(answers(asked, "| ", sender=cook))
    assert f"| {alice.user_id}: cook: printf" in context["content"]["body"]
    assert f"| {cook}: All of **them**:" in context["content"]["body"]

    asked = await alice.say(here.room_id, f"{node.address('cook')} seq 1 200")
    await alice.wait_for(answers(asked, "200 lines", sender=cook))
    sent = await alice.wait_for(
        lambda event: event["content"].get("msgtype") == "m.file" and relation(event)[1] == asked
    )
    file = await alice.download(sent["content"]["url"])
    assert file.data.split() == [str(number).encode() for number in range(1, 201)]


async def test_a_failure_is_explained(here: Company) -> None:
    """With the exit code, the output, and how to go on."""
    asked = await here.mention(here.alice, "cook", "echo 'Half a pie.'; echo 'No flour!' >&2; exit 3")
    said = await here.alice.wait_for(answers(asked, "exit code 3", "Half a pie."))
    for part in ("No flour!", "Reply to this message to continue"):
        assert part in said["content"]["body"]
    await until_reaction(here.alice, asked, "❌")


async def test_output_of_an_agent_is_plain_text(here: Company) -> None:
    """Neither HTML nor mentions: Synapse counts no highlight for a user who is named in it."""
    alice, bob, node = here.alice, here.bob, here.node
    await alice.sync()

    async def highlights() -> int:
        rooms = (await alice.sync_once())["rooms"]["join"]
        return int(rooms[here.room_id]["unread_notifications"]["highlight_count"])

    before = await highlights()
    words = (
        f'<img src=x onerror=alert(1)> <a href="https://matrix.to/#/{alice.user_id}">alice</a> @room'
        f" {alice.user_id} [alice](https://matrix.to/#/{alice.user_id}) <script>alert(1)</script>"
    )
    asked = await here.mention(alice, "baker", words)
    answer = await alice.wait_for(answers(asked, "onerror", sender=node.user("baker")))
    content = answer["content"]
    assert content["m.mentions"] == {}
    for tag in ("<img", "<a ", "<script"):
        assert tag not in content["formatted_body"]
    assert await highlights() == before
    await alice.wait_for_event(await bob.say(here.room_id, "You!", **{"m.mentions": {"user_ids": [alice.user_id]}}))
    assert await highlights() == before + 1


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
    refusal = await bob.wait_for(
        says(
            'You need the permission "work" to give tasks',
            f'the rule "{here.synapse.server_name}" = "look"',
            sender=here.node.user("palaver"),
        )
    )
    assert refusal["content"]["m.mentions"] == {"user_ids": [bob.user_id]}
    await here.asked_again()
    assert not (here.node.work / "refused").exists()


async def chat_with(who: MatrixClient, user: str) -> str:
    room_id = await who.create_room(preset="trusted_private_chat", invite=[user], is_direct=True)
    await who.wait_for_member(room_id, user, "join")
    return room_id


async def test_the_node_answers_commands_in_a_direct_chat(here: Company) -> None:
    """Each of its commands."""
    node, alice, carol = here.node, here.alice, here.carol
    chat = await chat_with(alice, node.user("palaver"))
    await alice.wait_for(says('Send "help"'), room_id=chat)

    async def told(line: str, *parts: str) -> str:
        said = await alice.say(chat, line)
        answer = await alice.wait_for(
            lambda event: event["content"].get("m.relates_to", {}).get("m.in_reply_to", {}).get("event_id") == said
        )
        body = str(answer["content"]["body"])
        assert [part for part in parts if part not in body] == []
        return body

    assert "- peers" not in await told("help", "- help [COMMAND]", "- agents", "- cancel ID [REASON]")
    await told("agents", f"- {node.address('baker')} · idle · command · task_execution, messaging")
    await told("agents bak", node.address("baker"))
    await told("agent baker", node.address("baker"), "Capabilities: task_execution, messaging")
    await told("rooms", f"#agents-default:{node.server_name}")
    await told("task nothing", 'No task "nothing" was found.')
    await here.mention(alice, "cook", "echo $PALAVER_TASK_ID >number; sleep 1000")
    number = await here.written("number")
    await told("task", f"⏳ {number}: {alice.user_id} asks {node.address('cook')} · running")
    await told(f"cancel {number} too late", f"❌ {number}", "cancelled")
    await told(f"task {number}", f"❌ {number}", "cancelled")
    await told("peers", 'the permission "administer"')
    await told("agnets", 'Did you mean "agents"?')

    chat = await chat_with(carol, node.user("palaver"))
    await carol.say(chat, "peers")
    await carol.wait_for(says(f"- {node.server_name} · ", f"- {here.kitchen.name} · "), room_id=chat)


async def test_an_encrypted_room_gets_one_notice(here: Company) -> None:
    """However many agents and messages it has."""
    node, alice = here.node, here.alice
    agents = [node.user("cook"), node.user("baker")]
    secret = await alice.create_room(invite=agents, initial_state=[ENCRYPTION])
    for _ in range(2):
        await alice.send(secret, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
    for agent in agents:
        await alice.wait_for_member(secret, agent, "join")
    # Invites and messages are handled in order.
    await chat_with(alice, agents[0])
    await here.asked_again()
    said = [event for event in await alice.history(secret) if event["sender"] in agents]
    assert [event["content"]["body"] for event in said if event["type"] == "m.room.message"] == [CANNOT_READ]


async def test_an_invited_agent_joins(here: Company) -> None:
    """A room of the Synapse, in which it answers mentions as in its own room."""
    node, alice, bob = here.node, here.alice, here.bob
    room_id = await alice.create_room(name="The garden", invite=[bob.user_id])
    await bob.join(room_id)
    await alice.invite(room_id, node.user("baker"))
    await alice.wait_for_member(room_id, node.user("baker"), "join")
    await alice.say(room_id, "The roses are lovely this year.")
    asked = await here.mention(alice, "baker", "A cake, please.", room_id)
    await bob.wait_for(answers(asked, "A cake, please.", sender=node.user("baker")), room_id=room_id)
    said = [event for event in await bob.history(room_id) if event["type"] == "m.room.message"]
    assert len(said) == 3


async def test_the_node_is_killed_during_a_task(here: Company) -> None:
    """The command ends with the node. After the restart the thread shows the result once, and the agent runs
    the next task."""
    node, alice = here.node, here.alice
    asked = await here.mention(alice, "cook", "echo $$ >killed; sleep 1000")
    pid = await here.written("killed")
    await until_reaction(alice, asked, "⏳")
    await node.kill()
    await until_gone(pid)
    await node.start()
    said = await alice.wait_for(answers(asked, "❌", "was interrupted (NODE_UNREACHABLE)", "send the request again"))
    await until_reaction(alice, asked, "❌")
    again = await here.mention(alice, "cook", "echo Back.")
    await alice.wait_for(answers(again, "Back.", sender=node.user("cook")))
    await here.asked_again()
    history = await alice.history(here.room_id)
    assert [event["event_id"] for event in history if relation(event)[:2] == ("m.thread", asked)] == [said["event_id"]]
    assert repeated(history, node.server_name) == []


async def test_the_synapse_is_killed_before_an_answer_arrives(here: Company) -> None:
    """The answer arrives once after the Synapse's restart."""
    node, alice, synapse = here.node, here.alice, here.synapse
    asked = await here.mention(alice, "cook", "echo $$ >oven; until [ -e open ]; do sleep 0.1; done; echo A pie.")
    oven = await here.written("oven")
    await until_reaction(alice, asked, "⏳")
    await synapse.kill()
    here.go_on("open")
    await until_gone(oven)
    await synapse.start()
    await alice.wait_for(answers(asked, "A pie.", sender=node.user("cook")))
    await until_reaction(alice, asked, "✅")
    await here.asked_again()
    assert repeated(await alice.history(here.room_id), node.server_name) == []


@pytest.mark.timeout(900)
async def test_the_node_is_killed_during_two_hundred_threads(here: Company) -> None:
    """Each is answered and nothing is sent twice, neither after the restart nor after another one with
    nothing left to do."""
    node, alice = here.node, here.alice
    guests = [await here.synapse.person(f"guest-{number}") for number in range(GUESTS)]
    for guest in guests:
        await guest.join(here.room_id, via=[here.synapse.server_name])

    async def ask(guest: MatrixClient, number: int) -> list[str]:
        count = len(range(number, THREADS, GUESTS))
        return [await here.mention(guest, "echo", f"Hello {number}, {one}.") for one in range(count)]

    async def until_done(asked: set[str | None], count: int) -> None:
        """Wait until this many tasks have an answer."""
        async with asyncio.timeout(5 * TIMEOUT):
            while True:
                said = [event for event in alice.seen.timeline if event["sender"] == node.user("echo")]
                if len({relation(event)[1] for event in said if is_said(event)} & asked) >= count:
                    return
                # Who syncs after each of many events keeps a Synapse from its work.
                await asyncio.sleep(1)
                await alice.sync()

    async with echo(node):
        said = await asyncio.gather(*(ask(guest, number) for number, guest in enumerate(guests)))
        asked: set[str | None] = {event_id for events in said for event_id in events}
        await until_done(asked, THREADS // 3)
        await node.kill()
        await node.start()
        await until_done(asked, THREADS)
        await here.asked_again()
        assert await node.stop() == 0
        await node.start()
        await here.asked_again()
    history = await alice.history(here.room_id)
    assert repeated(history, node.server_name) == []
    said_by_echo = [event for event in history if event["sender"] == node.user("echo") and is_said(event)]
    assert len(said_by_echo) == THREADS
    assert {relation(event)[1] for event in said_by_echo} == asked
    signs = {relation(event)[1:] for event in history if event["type"] == "m.reaction" and event["content"]}
    # Tasks that were shown as queued are shown as done; the others only have an answer.
    assert {sign for event_id, sign in signs if event_id in asked} <= {"✅"}
