"""Cancelling, editing and deleting requests."""

from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State, Task
from tests.bridge.people.service.running_node import ALICE, BOB, CAROL, NODE, WORKER, RunningNode, Servers


async def asked(servers: Servers, running: RunningNode, body: str = "@worker-1: peel") -> tuple[str, Task]:
    event_id = await servers.there.say(running.room_id, ALICE, body)
    task = await running.given()
    await servers.there.until_reaction(event_id, "⏳")
    return event_id, task


async def state_of(running: RunningNode, key: TaskKey) -> State:
    task = await running.task_service.task(key)
    assert task is not None
    return task.state


async def test_a_reaction_cancels_a_task(servers: Servers) -> None:
    """Of the requester or an administrator. Others are refused with the rule."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE, BOB, CAROL)
    event_id, task = await asked(servers, running)
    await servers.there.react(running.room_id, BOB, event_id, "❌")
    refusal = await servers.there.until_body(f'for {BOB} the rule "{BOB}" = "work"')
    assert refusal.content["m.relates_to"]["event_id"] == event_id
    assert await state_of(running, task.key) is State.ACCEPTED
    await servers.there.react(running.room_id, ALICE, event_id, "❌")
    await servers.there.until_body(f"❌ Cancelled by {ALICE}.", sender=NODE)
    assert (await running.courier.cancelled.get()).key == task.key
    await servers.there.until_reaction(event_id, "❌")

    event_id, task = await asked(servers, running, "@worker-1: peel more")
    await servers.there.react(running.room_id, CAROL, event_id, "❌")
    await servers.there.until_body(f"❌ Cancelled by {CAROL}.")


async def test_an_administrator_can_cancel_a_task_between_agents(servers: Servers) -> None:
    """With a reaction to the node's message."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE, CAROL)
    await running.request_task()
    root = await servers.there.until_body("⏳ coordinator@kitchen")
    await servers.there.react(running.room_id, ALICE, root.event_id, "❌")
    await servers.there.until_body(f'for {ALICE} the rule "{ALICE}" = "work"')
    await servers.there.react(running.room_id, CAROL, root.event_id, "❌")
    await servers.there.until_body("* ❌ coordinator@kitchen")


async def test_the_word_cancel_cancels(servers: Servers) -> None:
    """In the thread. If there is nothing to cancel, the person is told."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    event_id, _ = await asked(servers, running)
    await servers.there.answer(running.room_id, ALICE, event_id, "cancel")
    await servers.there.until_reaction(event_id, "❌")
    await servers.there.answer(running.room_id, ALICE, event_id, "cancel")
    await servers.there.until_body("There is nothing to cancel any more.")


async def test_an_edit_before_the_start_replaces_the_task(servers: Servers) -> None:
    """The first task is withdrawn silently, and the second is answered below the same message."""
    running = await servers.start_node()
    running.agent_settings["worker-1"] = AgentSettings(parallel=1)
    await servers.join(running.room_id, ALICE)
    event_id, first = await asked(servers, running)
    await servers.there.edit(running.room_id, ALICE, event_id, "@worker-1: peel the carrots")
    second = await running.given()
    assert second.request.prompt == "peel the carrots"
    assert await state_of(running, first.key) is State.CANCELLED
    await running.complete(second, "Carrots.")
    answer = await servers.there.until_body("Carrots.")
    assert answer.content["m.relates_to"]["event_id"] == event_id
    await servers.there.until_reaction(event_id, "✅")
    signs = await running.node.rooms.relations(running.room_id, event_id, "m.annotation")
    assert [one.content["m.relates_to"]["key"] for one in signs] == ["✅"]
    assert not any("Cancellation" in body for body in servers.there.bodies(running.room_id))


async def test_an_edit_after_the_start_is_refused(servers: Servers) -> None:
    """The person is told. An edit after the end is ignored."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    event_id, task = await asked(servers, running)
    assert await running.task_service.begin(task.key) is not None
    await servers.there.edit(running.room_id, ALICE, event_id, "@worker-1: peel the carrots")
    await servers.there.until_body("The task has already started")
    assert await state_of(running, task.key) is State.RUNNING
    await running.complete(task, "Done.")
    await servers.there.until_reaction(event_id, "✅")
    await servers.there.edit(running.room_id, ALICE, event_id, "@worker-1: peel the leeks")
    await servers.there.say(running.room_id, ALICE, "@worker-1: next")
    assert (await running.given()).request.prompt == "next"


async def test_an_edit_without_a_request_withdraws_the_task(servers: Servers) -> None:
    """So does deleting the message before the start."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    event_id, task = await asked(servers, running)
    await servers.there.edit(running.room_id, ALICE, event_id, "@worker-1")
    assert (await running.courier.cancelled.get()).key == task.key

    event_id, task = await asked(servers, running)
    await servers.there.node.rooms.redact(running.room_id, ALICE, event_id)
    assert (await running.courier.cancelled.get()).key == task.key
    assert await state_of(running, task.key) is State.CANCELLED

    event_id, task = await asked(servers, running)
    assert await running.task_service.begin(task.key) is not None
    await servers.there.node.rooms.redact(running.room_id, ALICE, event_id)
    await running.complete(task, "Done all the same.")
    await servers.there.until_body("Done all the same.", sender=WORKER)
