"""Shows people many tasks at once that have ended before."""

import asyncio

from bridge.people.service.shown_tasks import ShownTasks
from bridge.people.thread import Sign
from bridge.task import Task
from bridge.task_answer import Answer
from bridge.task_ports import WatchesMany
from federation.peer_limits import Rate
from tests.bridge.people.service.scene import ALICE, HERE, WORKER, Scene, Stage

NEVER = 3_600.0
"""Seconds after which the desk itself would show something."""


def watcher(scene: Scene) -> WatchesMany:
    assert isinstance(scene.people.watcher, WatchesMany)
    return scene.people.watcher


async def ended(scene: Scene, name: str, answer: Answer | str | None = None) -> Task:
    """A task that an agent of another node has asked for, and what became of it."""
    if answer is None:
        await scene.ask(name, to=f"nobody@{HERE}")
    else:
        await scene.ask(name)
        await scene.do(await scene.given(), answer)
    [task] = await scene.desk.find(name)
    assert task.state.is_final
    return task


async def test_each_is_shown_as_the_others_are(play: Stage) -> None:
    """In their order: the request with its sign, and in its thread the answer of whoever has given it. Shown
    once more they are the same, and they are known by their messages."""
    scene = await play.scene(shown_after=NEVER)
    await play.join(scene.room_id, ALICE)
    tasks = [
        await ended(scene, "one", "Peeled."),
        await ended(scene, "two", Answer(False, "The peeler broke.", 3)),
        await ended(scene, "three"),
    ]
    shown = ShownTasks(scene.node.database)
    for _ in range(2):
        await watcher(scene).show_all(tasks)
        known = [await shown.fetch(task.id) for task in tasks]
        assert [one and one.sign for one in known] == [Sign.DONE, Sign.FAILED, Sign.FAILED]
    for task, one, words in zip(
        tasks, known, ("Peeled.", "The peeler broke.", "AGENT_NOT_FOUND"), strict=True
    ):
        assert one is not None
        root = await play.there.until_body(f"asks {task.request.to_address} ({task.request.task_id})")
        answer = await play.there.until_body(words)
        assert (one.root, one.request, one.answer) == (root.event_id, root.event_id, answer.event_id)
        assert answer.content["m.relates_to"]["event_id"] == root.event_id
        assert answer.sender == (WORKER if task is not tasks[2] else scene.settings.node_user)
        assert await shown.find(scene.room_id, answer.event_id) == [one]
    await play.there.say(scene.room_id, ALICE, "!agents task task-three")
    await play.there.until_body("- ❌ task-three")
    bodies = [body for body in play.there.bodies(scene.room_id) if "coordinator@kitchen asks" in body]
    assert [body[0] for body in bodies[:3]] == ["✅", "❌", "❌"]
    assert not any("asks" in body and "task-one" in body for body in bodies[1:])


async def test_one_that_was_shown_before_is_gone_on_with(play: Stage) -> None:
    """Its message that asks gets its sign, beside others that are new."""
    scene = await play.scene(shown_after=NEVER)
    await play.join(scene.room_id, ALICE)
    waiting = await scene.ask("first")
    given = await scene.given()
    await scene.people.watcher.show(waiting)
    root = await play.there.until_body("⏳ coordinator@kitchen asks")
    await scene.do(given, "Peeled.")
    [first] = await scene.desk.find("first")
    await watcher(scene).show_all([await ended(scene, "second", "Diced."), first])
    await play.there.until_body("✅ coordinator@kitchen asks", "task-first")
    answer = await play.there.until_body("Peeled.", sender=WORKER)
    assert answer.content["m.relates_to"]["event_id"] == root.event_id
    await play.there.until_body("Diced.", sender=WORKER)


async def test_two_at_the_same_tasks(play: Stage) -> None:
    """As two processes of a node may be: nothing is said twice."""
    scene = await play.scene(shown_after=NEVER)
    await play.join(scene.room_id, ALICE)
    tasks = [await ended(scene, name, f"Peeled {name}.") for name in ("one", "two")]
    await asyncio.gather(*(watcher(scene).show_all(tasks) for _ in range(2)))
    await play.there.say(scene.room_id, ALICE, "!agents task task-nothing")
    await play.there.until_body("task-nothing", sender=scene.settings.node_user)
    bodies = play.there.bodies(scene.room_id)
    for part in ("(task-one)", "(task-two)", "Peeled one.", "Peeled two."):
        assert sum(part in body for body in bodies) == 1


async def test_a_long_answer_is_shown_with_its_file(play: Stage) -> None:
    """As when it is shown alone."""
    scene = await play.scene(shown_after=NEVER)
    await play.join(scene.room_id, ALICE)
    output = "".join(f"potato {number}\n" for number in range(1_000))
    await watcher(scene).show_all([await ended(scene, "long", output)])
    await play.there.until_body("The whole answer is the file below: 1000 lines")
    await play.there.until(lambda event: event.content.get("msgtype") == "m.file")


async def test_no_more_are_shown_than_can_be_read(play: Stage) -> None:
    """What is left out is counted, and told before the next that is shown."""
    scene = await play.scene(shown_after=NEVER, shown=Rate(0.001, 1))
    await play.join(scene.room_id, ALICE)
    await watcher(scene).show_all([await ended(scene, name) for name in ("one", "two", "three")])
    await play.there.until_body("task-one")
    scene.people.watcher._showing._shown._full_at.clear()  # type: ignore[attr-defined]
    await watcher(scene).show_all([await ended(scene, "last")])
    await play.there.until_body("2 other tasks have ended meanwhile")
    await play.there.until_body("task-last")


async def test_only_what_people_have_asked_for(play: Stage) -> None:
    """By the setting; what they have asked for is answered where they have asked."""
    scene = await play.scene(shown_after=NEVER, show="asked")
    await play.join(scene.room_id, ALICE)
    other = await ended(scene, "one", "Not for you.")
    root = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    task = await scene.given()
    await scene.do(task, "Peeled.")
    own = await scene.desk.task(task.key)
    assert own is not None
    await watcher(scene).show_all([other, own])
    answer = await play.there.until_body("Peeled.", sender=WORKER)
    assert answer.content["m.relates_to"]["event_id"] == root
    assert not any("Not for you" in body for body in play.there.bodies(scene.room_id))
