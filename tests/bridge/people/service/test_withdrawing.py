"""Takes work back that people have asked for."""

from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State, Task
from tests.bridge.people.service.scene import ALICE, BOB, CAROL, NODE, WORKER, Scene, Stage


async def asked(play: Stage, scene: Scene, body: str = "@worker-1: peel") -> tuple[str, Task]:
    event_id = await play.there.say(scene.room_id, ALICE, body)
    task = await scene.given()
    await play.there.until_reaction(event_id, "⏳")
    return event_id, task


async def state_of(scene: Scene, key: TaskKey) -> State:
    task = await scene.tasks.task(key)
    assert task is not None
    return task.state


async def test_a_reaction_takes_back(play: Stage) -> None:
    """Of whoever asked, or of an administrator; who is neither is told which rule decided."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE, BOB, CAROL)
    event_id, task = await asked(play, scene)
    await play.there.react(scene.room_id, BOB, event_id, "❌")
    refusal = await play.there.until_body(f'for {BOB} the rule "{BOB}" = "work"')
    assert refusal.content["m.relates_to"]["event_id"] == event_id
    assert await state_of(scene, task.key) is State.ACCEPTED
    await play.there.react(scene.room_id, ALICE, event_id, "❌")
    await play.there.until_body(f"❌ Cancelled by {ALICE}.", sender=NODE)
    assert (await scene.courier.cancelled.get()).key == task.key
    await play.there.until_reaction(event_id, "❌")

    event_id, task = await asked(play, scene, "@worker-1: peel more")
    await play.there.react(scene.room_id, CAROL, event_id, "❌")
    await play.there.until_body(f"❌ Cancelled by {CAROL}.")


async def test_what_no_person_asked_for_an_administrator_takes_back(play: Stage) -> None:
    """By a reaction to the message of the node."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE, CAROL)
    await scene.ask()
    root = await play.there.until_body("⏳ coordinator@kitchen")
    await play.there.react(scene.room_id, ALICE, root.event_id, "❌")
    await play.there.until_body(f'for {ALICE} the rule "{ALICE}" = "work"')
    await play.there.react(scene.room_id, CAROL, root.event_id, "❌")
    await play.there.until_body("* ❌ coordinator@kitchen")


async def test_a_word_takes_back(play: Stage) -> None:
    """In the thread; when there is nothing left to take back, that is said."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    event_id, _ = await asked(play, scene)
    await play.there.answer(scene.room_id, ALICE, event_id, "cancel")
    await play.there.until_reaction(event_id, "❌")
    await play.there.answer(scene.room_id, ALICE, event_id, "cancel")
    await play.there.until_body("There is nothing to take back any more.")


async def test_an_edit_before_it_began_replaces_it(play: Stage) -> None:
    """The first is taken back without a word, and the second answered below the same message."""
    scene = await play.scene()
    scene.agent_settings["worker-1"] = AgentSettings(parallel=1)
    await play.join(scene.room_id, ALICE)
    event_id, first = await asked(play, scene)
    await play.there.edit(scene.room_id, ALICE, event_id, "@worker-1: peel the carrots")
    second = await scene.given()
    assert second.request.prompt == "peel the carrots"
    assert await state_of(scene, first.key) is State.CANCELLED
    await scene.do(second, "Carrots.")
    answer = await play.there.until_body("Carrots.")
    assert answer.content["m.relates_to"]["event_id"] == event_id
    await play.there.until_reaction(event_id, "✅")
    signs = await scene.node.rooms.relations(scene.room_id, event_id, "m.annotation")
    assert [one.content["m.relates_to"]["key"] for one in signs] == ["✅"]
    assert not any("Cancelled" in body for body in play.there.bodies(scene.room_id))


async def test_an_edit_after_it_began_comes_too_late(play: Stage) -> None:
    """Which is said; and whoever edits what was done long ago is left alone."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    event_id, task = await asked(play, scene)
    assert await scene.tasks.begin(task.key) is not None
    await play.there.edit(scene.room_id, ALICE, event_id, "@worker-1: peel the carrots")
    await play.there.until_body("It has been begun already")
    assert await state_of(scene, task.key) is State.RUNNING
    await scene.do(task, "Done.")
    await play.there.until_reaction(event_id, "✅")
    await play.there.edit(scene.room_id, ALICE, event_id, "@worker-1: peel the leeks")
    await play.there.say(scene.room_id, ALICE, "@worker-1: next")
    assert (await scene.given()).request.prompt == "next"


async def test_an_edit_that_asks_for_nothing_takes_back(play: Stage) -> None:
    """And so does deleting the message, before it began."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    event_id, task = await asked(play, scene)
    await play.there.edit(scene.room_id, ALICE, event_id, "@worker-1")
    assert (await scene.courier.cancelled.get()).key == task.key

    event_id, task = await asked(play, scene)
    await play.there.node.rooms.redact(scene.room_id, ALICE, event_id)
    assert (await scene.courier.cancelled.get()).key == task.key
    assert await state_of(scene, task.key) is State.CANCELLED

    event_id, task = await asked(play, scene)
    assert await scene.tasks.begin(task.key) is not None
    await play.there.node.rooms.redact(scene.room_id, ALICE, event_id)
    await scene.do(task, "Done all the same.")
    await play.there.until_body("Done all the same.", sender=WORKER)
