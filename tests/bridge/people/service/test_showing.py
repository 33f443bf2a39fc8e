"""Shows people what becomes of tasks."""

import pytest

from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from federation.matrix.message_content import HTML
from federation.peers.limits import Rate
from tests.bridge.people.service.scene import ALICE, BOB, CAROL, HERE, NODE, WORKER, LetsSpeak, Stage
from tests.support.agents import address

NEVER = 3_600.0


async def test_a_long_answer_is_a_file(play: Stage) -> None:
    """With its beginning in the message, both in the thread."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    root = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    output = "".join(f"potato {number}\n" for number in range(1_000))
    await scene.do(await scene.given(), output)
    answer = await play.there.until_body("potato 1\n", "The whole answer is the file below: 1000 lines")
    sent = await play.there.until(lambda event: event.content.get("msgtype") == "m.file")
    for one in (answer, sent):
        assert one.sender == WORKER
        assert one.content["m.relates_to"]["event_id"] == root
        assert one.content.get("m.mentions", {}) == {}
    assert sent.content["body"].endswith(".txt")
    async with play.there.node.rooms.download(sent.content["url"]) as opened:
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


async def test_what_an_agent_says_is_data(play: Stage) -> None:
    """Nobody is called by it, no tag gets through, and nothing that is unseen is left."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await scene.do(await scene.given(), HOSTILE)
    answer = await play.there.until_body("@room", sender=WORKER)
    assert answer.content["m.mentions"] == {}
    assert answer.content["format"] == HTML
    html = answer.content["formatted_body"]
    for tag in ("<a ", "<img", "<script", "<b>"):
        assert tag not in html
    assert "red gnp.exe" in answer.content["body"]
    assert not set(answer.content["body"] + html) & set("\x1b\u202e")


@pytest.mark.parametrize("code", [ErrorCode.TIMEOUT, ErrorCode.NODE_UNREACHABLE])
async def test_a_failure_is_the_nodes_word(play: Stage, code: ErrorCode) -> None:
    """With its code, and what to do."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    asked = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await scene.tasks.fail((await scene.given()).key, TaskError(code, "So it is."))
    said = await play.there.until_body(f"({code})", "So it is.", code.advice)
    assert said.sender == NODE
    await play.there.until_reaction(asked, "❌")


async def test_what_is_over_at_once_is_two_messages(play: Stage) -> None:
    """The request with its sign, and the answer: nothing of what was in between."""
    scene = await play.scene(agents=("worker-1",))
    await play.join(scene.room_id, ALICE)
    await scene.ask("lost", to=f"nobody@{HERE}")
    root = await play.there.until_body("❌ coordinator@kitchen asks")
    answer = await play.there.until_body("is not there (AGENT_NOT_FOUND)")
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await play.there.say(scene.room_id, ALICE, "!agents task task-lost")
    await play.there.until_body("- ❌ task-lost")
    assert len([body for body in play.there.bodies(scene.room_id) if "kitchen asks" in body]) == 2


async def test_an_answer_at_once_is_its_own_sign(play: Stage) -> None:
    """Of what was done before it was seen waiting nothing is said but the answer; a failure is signed."""
    scene = await play.scene(shown_after=NEVER)
    await play.join(scene.room_id, ALICE)
    for answer in (Answer(True, "Peeled.", 0), Answer(False, "The peeler broke.", 3)):
        asked = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
        task = await scene.given()
        await scene.do(task, answer)
        ended = await scene.tasks.task(task.key)
        assert ended is not None
        for _ in range(2):
            await scene.people.watcher._showing.show(ended)  # type: ignore[attr-defined]
        await play.there.until_body(answer.output)
        signs = await scene.node.rooms.relations(scene.room_id, asked, "m.annotation")
        shown = [one.content["m.relates_to"]["key"] for one in signs]
        assert shown == ([] if answer.success else ["❌"])


async def test_no_more_is_shown_than_can_be_read(play: Stage) -> None:
    """What is left out is counted. What people have asked for is shown in any case."""
    scene = await play.scene(shown=Rate(0.001, 1))
    await play.join(scene.room_id, ALICE)
    await scene.ask("first", to=f"nobody@{HERE}")
    await play.there.until_body("task-first")
    for number in range(3):
        await scene.ask(f"more-{number}", to=f"nobody@{HERE}")
        await scene.requester.answered.get()
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await scene.do(await scene.given(), "Peeled.")
    await play.there.until_body("Peeled.")
    assert not any("task-more" in body for body in play.there.bodies(scene.room_id))
    scene.people.watcher._showing._shown._full_at.clear()  # type: ignore[attr-defined]
    await scene.ask("last", to=f"nobody@{HERE}")
    await play.there.until_body("3 other tasks have ended meanwhile")
    await play.there.until_body("task-last")


async def test_only_what_people_have_asked_for(play: Stage) -> None:
    """By the setting."""
    scene = await play.scene(show="asked")
    await play.join(scene.room_id, ALICE)
    await scene.ask()
    await scene.do(await scene.given(), "Not for you.")
    await scene.requester.answered.get()
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    await scene.do(await scene.given(), Answer(False, "The peeler broke.", 3))
    await play.there.until_body("❌ It has failed, with exit code 3.\n\nThe peeler broke.")
    assert not any("kitchen" in body or "Not for you" in body for body in play.there.bodies(scene.room_id))


async def test_an_agent_that_was_made_to_leave(play: Stage) -> None:
    """Its answer is told by the node, and no task waits for ever."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    asked = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    task = await scene.given()
    await play.there.until_reaction(asked, "⏳")
    await scene.node.rooms.ban(scene.room_id, NODE, WORKER)
    await scene.do(task, "Peeled.")
    said = await play.there.until_body(f"worker-1@{HERE} answers:\nPeeled.")
    assert said.sender == NODE
    await play.there.until_reaction(asked, "✅")


async def test_what_is_asked_in_a_persons_name_is_the_persons_message(play: Stage) -> None:
    """It begins the thread, with the sign as a reaction, and is worked on once; the person can take it back.
    What the person says as an answer is heard as ever."""
    scene = await play.scene(speaks=LetsSpeak(play.there.node, {ALICE}), show="asked")
    await play.join(scene.room_id, ALICE, BOB)
    await scene.ask_as(ALICE)
    root = await play.there.until_body("worker-1: Peel the potatoes", sender=ALICE)
    assert root.content["m.mentions"] == {"user_ids": [WORKER]}
    assert root.content["msgtype"] == "m.text"
    await play.there.until_reaction(root.event_id, "⏳")
    await scene.do(await scene.given(), "Peeled.")
    answer = await play.there.until_body("Peeled.", sender=WORKER)
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await play.there.until_reaction(root.event_id, "✅")

    second = await scene.ask_as(ALICE, "req-2")
    again = await play.there.until(
        lambda event: event.sender == ALICE and "Peel" in str(event.content) and event != root
    )
    await scene.given()
    await play.there.react(scene.room_id, BOB, again.event_id, "❌")
    await play.there.until_body("for @bob:there.test the rule", sender=NODE)
    await play.there.react(scene.room_id, ALICE, again.event_id, "❌")
    await play.there.until(
        lambda event: event.sender == WORKER and event.content.get("m.relates_to", {}).get("key") == "❌"
    )
    ended = await scene.tasks.task(second.key)
    assert ended is not None
    assert ended.state.is_final
    assert scene.courier.delivered.empty()


async def test_where_it_cannot_be_said_the_node_says_it(play: Stage) -> None:
    """With the name of the person, who can take it back all the same: for who has not let the node speak, and
    for who is not in the room."""
    scene = await play.scene(speaks=LetsSpeak(play.there.node, {CAROL}))
    await play.join(scene.room_id, ALICE)
    for person, request_id in ((ALICE, "of-alice"), (CAROL, "of-carol")):
        await scene.ask_as(person, request_id)
        said = await play.there.until_body(f"{person} asks worker-1@{HERE}", f"task-{request_id}")
        assert said.sender == NODE
        if person == ALICE:
            await scene.given()
            await play.there.react(scene.room_id, ALICE, said.event_id, "❌")
            await play.there.until_body("❌", f"{ALICE} asks")


async def test_an_agent_that_is_called_like_a_person_is_none(play: Stage) -> None:
    """Nobody speaks in a person's name because an agent says that it is called so."""
    scene = await play.scene(speaks=LetsSpeak(play.there.node, {ALICE}))
    await play.join(scene.room_id, ALICE)
    await scene.ask(from_address=address(f"{ALICE[1:]}@{HERE}"))
    said = await play.there.until_body("asks worker-1")
    assert said.sender == NODE


async def test_one_that_is_over_at_once_is_the_persons_message_too(play: Stage) -> None:
    """With its answer in the thread."""
    scene = await play.scene(speaks=LetsSpeak(play.there.node, {ALICE}), shown_after=0.05)
    await play.join(scene.room_id, ALICE)
    await scene.ask_as(ALICE, "lost", to=f"nobody@{HERE}")
    root = await play.there.until_body("Peel the potatoes", sender=ALICE)
    answer = await play.there.until_body("is not there (AGENT_NOT_FOUND)")
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await play.there.until_reaction(root.event_id, "❌")
