"""People of a real Synapse and agents of a node: reading, giving tasks, answers and refusals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bridge.people.permissions import Level, Rights
from bridge.tasks.task import State
from federation.http.server.tls import TlsFiles
from tests.bridge.people.service.running_node import RunningNode, running_node
from tests.federation.nodes import Node, nodes
from tests.support.matrix_client import MatrixClient
from tests.support.matrix_client.seen import Event
from tests.support.postgres import Server
from tests.support.synapse import Synapse
from tests.support.tls import Authority

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("people")]
TIMEOUT = 60.0
ENCRYPTION = {"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}}


@dataclass
class Company:
    """A node with an agent, and people of a Synapse in the agents' room: alice may give it tasks, carol
    administers, and bob may read."""

    node: Node
    here: RunningNode
    alice: MatrixClient
    bob: MatrixClient
    carol: MatrixClient

    @property
    def worker(self) -> str:
        return self.node.user("worker-1")

    async def given(self) -> Any:
        async with asyncio.timeout(TIMEOUT):
            return await self.here.courier.delivered.get()

    async def mention(self, who: MatrixClient, room_id: str, body: str) -> str:
        """Return a mention as Element writes it."""
        pill = f'<a href="https://matrix.to/#/{self.worker}">worker-1</a>: {body}'
        more = {"format": "org.matrix.custom.html", "formatted_body": pill}
        return await who.say(room_id, f"worker-1: {body}", **more, **{"m.mentions": {"user_ids": [self.worker]}})

    async def until_reaction(self, who: MatrixClient, event_id: str, key: str) -> Event:
        relation = {"rel_type": "m.annotation", "event_id": event_id, "key": key}
        return await who.wait_for(lambda event: event["content"].get("m.relates_to") == relation)


@pytest.fixture
async def company(
    postgres_server: Server, migrated_template: str, authority: Authority, tmp_path: Path, synapse: Synapse
) -> AsyncIterator[Company]:
    issued = authority.issue("localhost", "127.0.0.1", "::1").write(tmp_path, "node")
    trusted = authority.write(tmp_path, "ca")
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(nodes(postgres_server, migrated_template, TlsFiles(*issued), trusted))
        node = await running.start_over_tls()
        people = [await synapse.person() for _ in range(3)]
        alice, bob, carol = people
        rights = Rights({synapse.server_name: Level.LOOK, alice.user_id: Level.WORK, carol.user_id: Level.ADMINISTER})
        here = await stack.enter_async_context(running_node(node, rights=rights))
        for person in people:
            await person.join(f"#agents-default:{node.name}", via=[node.name])
        yield Company(node, here, alice, bob, carol)


def says(*parts: str) -> Any:
    def found(event: Event) -> bool:
        body = event["content"].get("body")
        return isinstance(body, str) and all(part in body for part in parts)

    return found


async def test_an_agent_gets_a_task_and_answers(company: Company) -> None:
    """By a mention as clients write it; Synapse shows the answer in the thread, and the progress as one
    message with edits."""
    alice, here = company.alice, company.here
    asked = await company.mention(alice, here.room_id, "peel the potatoes")
    task = await company.given()
    assert task.request.prompt == "peel the potatoes"
    await company.until_reaction(alice, asked, "⏳")
    assert await here.task_service.begin(task.key) is not None
    await here.task_service.progress(task.key, {"message": "the first"})
    progress = await alice.wait_for(says("the first"))
    await here.task_service.progress(task.key, {"message": "the last"})
    await alice.wait_for(says("* the last"))
    await here.complete(task, "All of **them**:\n\n```python\npeel()\n```\n@room")
    answer = await alice.wait_for(says("All of **them**"))
    assert answer["sender"] == company.worker
    assert '<code class="language-python">peel()\n</code>' in answer["content"]["formatted_body"]
    assert answer["content"]["m.mentions"] == {}
    await company.until_reaction(alice, asked, "✅")
    thread = await alice.relations(here.room_id, asked, "m.thread")
    assert [event["event_id"] for event in thread] == [answer["event_id"], progress["event_id"]]
    edited = await alice.event(here.room_id, progress["event_id"])
    assert edited["unsigned"]["m.relations"]["m.replace"]["content"]["m.new_content"]["body"] == "the last"
    root = await alice.event(here.room_id, asked)
    assert root["unsigned"]["m.relations"]["m.thread"]["count"] == 2
    signs = await alice.relations(here.room_id, asked, "m.annotation")
    assert [event["content"]["m.relates_to"]["key"] for event in signs] == ["✅"]

    await alice.reply_in_thread(here.room_id, asked, "and the carrots")
    task = await company.given()
    assert task.request.prompt == "and the carrots"
    assert task.request.context.startswith(f"{alice.user_id}: worker-1: peel the potatoes")
    await here.complete(task, "x\n" * 200)
    sent = await alice.wait_for(lambda event: event["content"].get("msgtype") == "m.file")
    assert (await alice.download(sent["content"]["url"])).data == b"x\n" * 199 + b"x"
    assert here.notebook.problems == []


async def test_people_read_the_work_of_agents(company: Company) -> None:
    """A task that no person has given is a thread as well, whose first message shows its state."""
    here = company.here
    await here.request_task(to=f"worker-1@{company.node.name}")
    task = await company.given()
    root = await company.bob.wait_for(says("⏳ coordinator@kitchen asks", "Peel the potatoes"))
    await here.complete(task, "Done.")
    answer = await company.bob.wait_for(says("Done."))
    assert answer["content"]["m.relates_to"]["event_id"] == root["event_id"]
    await company.bob.wait_for(says("* ✅ coordinator@kitchen asks"))
    shown = await company.bob.event(here.room_id, root["event_id"])
    edited = shown["unsigned"]["m.relations"]["m.replace"]["content"]["m.new_content"]["body"]
    assert edited.startswith("✅ coordinator@kitchen asks")


async def test_a_task_is_cancelled(company: Company) -> None:
    """By a reaction of its requester or of an administrator; another person is refused with the permission
    that decided. An edit before the task begins replaces it."""
    here, alice = company.here, company.alice
    asked = await company.mention(alice, here.room_id, "peel")
    first = await company.given()
    await company.until_reaction(company.bob, asked, "⏳")
    await company.bob.react(here.room_id, asked, "❌")
    server = company.bob.user_id.partition(":")[2]
    refusal = await company.bob.wait_for(says(f'the rule "{server}" = "look"'))
    assert refusal["content"]["m.mentions"] == {"user_ids": [company.bob.user_id]}
    await alice.edit(here.room_id, asked, "@worker-1: peel the carrots")
    second = await company.given()
    assert second.request.prompt == "peel the carrots"
    ended = await here.task_service.task(first.key)
    assert ended is not None
    assert ended.state is State.CANCELLED
    await company.carol.react(here.room_id, asked, "❌")
    await alice.wait_for(says(f"❌ Cancelled by {company.carol.user_id}."))
    await company.until_reaction(alice, asked, "❌")


async def test_a_person_without_permission_is_refused(company: Company) -> None:
    """In the room, and in a direct chat with the agent."""
    here, bob = company.here, company.bob
    await company.mention(bob, here.room_id, "peel")
    await bob.wait_for(says("to give tasks to agents"))
    room_id = await bob.create_room(invite=[company.worker], is_direct=True)
    rejected = await bob.wait_for_member(room_id, company.worker, "leave")
    assert "to give tasks to agents" in rejected["content"]["reason"]
    assert here.courier.delivered.empty()


async def test_direct_chats(company: Company) -> None:
    """With an agent, where every message is a task; with the node, which answers commands; and an encrypted
    one, in which a notice says at once that it cannot be read."""
    here, alice = company.here, company.alice
    chat = await alice.create_room(preset="trusted_private_chat", invite=[company.worker], is_direct=True)
    await alice.wait_for_member(chat, company.worker, "join")
    asked = await alice.say(chat, "peel")
    await here.complete(await company.given(), "Peeled.")
    answer = await alice.wait_for_text("Peeled.", room_id=chat)
    assert answer["content"]["m.relates_to"] == {"m.in_reply_to": {"event_id": asked}}

    node_user = company.node.user("palaver")
    tasks = await alice.create_room(preset="trusted_private_chat", invite=[node_user], is_direct=True)
    await alice.wait_for(says('Send "help"'), room_id=tasks)
    await alice.say(tasks, "agents")
    listed = await alice.wait_for(says(f"worker-1@{company.node.name} · idle"), room_id=tasks)
    assert listed["content"]["msgtype"] == "m.notice"

    secret = await alice.create_room(
        preset="trusted_private_chat", invite=[company.worker], is_direct=True, initial_state=[ENCRYPTION]
    )
    said = await alice.wait_for(says("This room is encrypted"), room_id=secret)
    assert said["sender"] == company.worker
    assert here.notebook.problems == []
