"""Tasks are shown as threads."""

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from federation.matrix.message_content import HTML
from federation.peers.limits import Rate
from tests.bridge.people.service.running_node import ALICE, BOB, CAROL, HERE, NODE, WORKER, ActsForPeople, Servers
from tests.support.agents import address

NEVER = 3_600.0


async def test_a_long_answer_is_a_file(servers: Servers) -> None:
    """With its beginning in the message, both in the thread."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    root = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    output = "".join(f"potato {number}\n" for number in range(1_000))
    await running.complete(await running.given(), output)
    answer = await servers.there.until_body("potato 1\n", "The complete answer is in the file below: 1000 lines")
    sent = await servers.there.until(lambda event: event.content.get("msgtype") == "m.file")
    for one in (answer, sent):
        assert one.sender == WORKER
        assert one.content["m.relates_to"]["event_id"] == root
        assert one.content.get("m.mentions", {}) == {}
    assert sent.content["body"].endswith(".txt")
    async with servers.there.node.rooms.download(sent.content["url"]) as opened:
        content = b"".join([chunk async for chunk in opened.chunks])
    assert content.decode() == output.rstrip()
    assert sent.content["info"] == {"size": len(content), "mimetype": "text/plain"}


HOSTILE = f"""\
@room {ALICE} <a href="https://matrix.to/#/{ALICE}">alice</a>
[alice](https://matrix.to/#/{ALICE}) <img src=x onerror=alert(1)> <script>x</script>
\x1b[31mred\x1b[0m \u202egnp.exe
```"><script>
</code></pre><b>
```
"""


async def test_output_is_sanitised(servers: Servers) -> None:
    """It has no mentions, no active HTML or invisible characters."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await running.complete(await running.given(), HOSTILE)
    answer = await servers.there.until_body("@room", sender=WORKER)
    assert answer.content["m.mentions"] == {}
    assert answer.content["format"] == HTML
    html = answer.content["formatted_body"]
    for tag in ("<a ", "<img", "<script", "<b>"):
        assert tag not in html
    assert "red gnp.exe" in answer.content["body"]
    assert not set(answer.content["body"] + html) & set("\x1b\u202e")


@pytest.mark.parametrize("code", [ErrorCode.TIMEOUT, ErrorCode.NODE_UNREACHABLE])
async def test_an_error_is_a_message_of_the_node(servers: Servers, code: ErrorCode) -> None:
    """With its code and advice."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    asked = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await running.task_service.fail((await running.given()).key, TaskError(code, "So it is."))
    said = await servers.there.until_body(f"({code})", "So it is.", code.advice)
    assert said.sender == NODE
    await servers.there.until_reaction(asked, "❌")


async def test_a_task_that_fails_at_once_has_two_messages(servers: Servers) -> None:
    """The request with its final status, and the answer."""
    running = await servers.start_node(agents=("worker-1",))
    await servers.join(running.room_id, ALICE)
    await running.request_task("lost", to=f"nobody@{HERE}")
    root = await servers.there.until_body("❌ coordinator@kitchen asks")
    answer = await servers.there.until_body("was not found (AGENT_NOT_FOUND)")
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await servers.there.say(running.room_id, ALICE, "!agents task task-lost")
    await servers.there.until_body("- ❌ task-lost")
    assert len([body for body in servers.there.bodies(running.room_id) if "kitchen asks" in body]) == 2


async def test_a_quick_answer_needs_no_reaction(servers: Servers) -> None:
    """A failure has one."""
    running = await servers.start_node(shown_after=NEVER)
    await servers.join(running.room_id, ALICE)
    for answer in (Answer(True, "Peeled.", 0), Answer(False, "The peeler broke.", 3)):
        asked = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
        task = await running.given()
        await running.complete(task, answer)
        ended = await running.task_service.task(task.key)
        assert ended is not None
        for _ in range(2):
            await running.people.watcher._threads.show(ended)  # type: ignore[attr-defined]
        await servers.there.until_body(answer.output)
        signs = await running.node.rooms.relations(running.room_id, asked, "m.annotation")
        shown = [one.content["m.relates_to"]["key"] for one in signs]
        assert shown == ([] if answer.success else ["❌"])


async def test_the_number_of_shown_tasks_is_limited(servers: Servers) -> None:
    """Omitted tasks are counted. Requests of people are always shown."""
    running = await servers.start_node(shown_task_rate=Rate(0.001, 1))
    await servers.join(running.room_id, ALICE)
    await running.request_task("first", to=f"nobody@{HERE}")
    await servers.there.until_body("task-first")
    for number in range(3):
        await running.request_task(f"more-{number}", to=f"nobody@{HERE}")
        await running.requester.answered.get()
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await running.complete(await running.given(), "Peeled.")
    await servers.there.until_body("Peeled.")
    assert not any("task-more" in body for body in servers.there.bodies(running.room_id))
    running.people.watcher._threads._shown_rate._full_at.clear()  # type: ignore[attr-defined]
    await running.request_task("last", to=f"nobody@{HERE}")
    await servers.there.until_body("3 others have ended in the meantime")
    await servers.there.until_body("task-last")


async def test_only_requests_of_people_can_be_shown(servers: Servers) -> None:
    """Depending on the settings."""
    running = await servers.start_node(show="asked")
    await servers.join(running.room_id, ALICE)
    await running.request_task()
    await running.complete(await running.given(), "Not for you.")
    await running.requester.answered.get()
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    await running.complete(await running.given(), Answer(False, "The peeler broke.", 3))
    await servers.there.until_body("❌ Failed with exit code 3.\n\nThe peeler broke.")
    assert not any("kitchen" in body or "Not for you" in body for body in servers.there.bodies(running.room_id))


async def test_the_node_answers_for_an_agent_that_was_banned(servers: Servers) -> None:
    """The task still ends."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    asked = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    task = await running.given()
    await servers.there.until_reaction(asked, "⏳")
    await running.node.rooms.ban(running.room_id, NODE, WORKER)
    await running.complete(task, "Peeled.")
    said = await servers.there.until_body(f"worker-1@{HERE} answers:\nPeeled.")
    assert said.sender == NODE
    await servers.there.until_reaction(asked, "✅")


async def test_a_request_in_a_persons_name_is_the_persons_message(servers: Servers) -> None:
    """It is the root of the thread and is handled once. The person can cancel it."""
    running = await servers.start_node(speaks=ActsForPeople(servers.there.node, {ALICE}), show="asked")
    await servers.join(running.room_id, ALICE, BOB)
    await running.request_task_as(ALICE)
    root = await servers.there.until_body("worker-1: Peel the potatoes", sender=ALICE)
    assert root.content["m.mentions"] == {"user_ids": [WORKER]}
    assert root.content["msgtype"] == "m.text"
    await servers.there.until_reaction(root.event_id, "⏳")
    await running.complete(await running.given(), "Peeled.")
    answer = await servers.there.until_body("Peeled.", sender=WORKER)
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await servers.there.until_reaction(root.event_id, "✅")

    second = await running.request_task_as(ALICE, "req-2")
    again = await servers.there.until(
        lambda event: event.sender == ALICE and "Peel" in str(event.content) and event != root
    )
    await running.given()
    await servers.there.react(running.room_id, BOB, again.event_id, "❌")
    await servers.there.until_body("for @bob:there.test the rule", sender=NODE)
    await servers.there.react(running.room_id, ALICE, again.event_id, "❌")
    await servers.there.until(
        lambda event: event.sender == WORKER and event.content.get("m.relates_to", {}).get("key") == "❌"
    )
    ended = await running.task_service.task(second.key)
    assert ended is not None
    assert ended.state.is_final
    assert running.courier.delivered.empty()


async def test_otherwise_the_node_sends_the_request(servers: Servers) -> None:
    """With the person's name, if it may not act for the person or the person has not joined the room."""
    running = await servers.start_node(speaks=ActsForPeople(servers.there.node, {CAROL}))
    await servers.join(running.room_id, ALICE)
    for person, request_id in ((ALICE, "of-alice"), (CAROL, "of-carol")):
        await running.request_task_as(person, request_id)
        said = await servers.there.until_body(f"{person} asks worker-1@{HERE}", f"task-{request_id}")
        assert said.sender == NODE
        if person == ALICE:
            await running.given()
            await servers.there.react(running.room_id, ALICE, said.event_id, "❌")
            await servers.there.until_body("❌", f"{ALICE} asks")


async def test_an_agent_with_a_persons_address_is_not_the_person(servers: Servers) -> None:
    """The node does not act for the person then."""
    running = await servers.start_node(speaks=ActsForPeople(servers.there.node, {ALICE}))
    await servers.join(running.room_id, ALICE)
    await running.request_task(from_address=address(f"{ALICE[1:]}@{HERE}"))
    said = await servers.there.until_body("asks worker-1")
    assert said.sender == NODE


async def test_a_failed_request_in_a_persons_name_is_shown_too(servers: Servers) -> None:
    """With its answer in the thread."""
    running = await servers.start_node(speaks=ActsForPeople(servers.there.node, {ALICE}), shown_after=0.05)
    await servers.join(running.room_id, ALICE)
    await running.request_task_as(ALICE, "lost", to=f"nobody@{HERE}")
    root = await servers.there.until_body("Peel the potatoes", sender=ALICE)
    answer = await servers.there.until_body("was not found (AGENT_NOT_FOUND)")
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await servers.there.until_reaction(root.event_id, "❌")
