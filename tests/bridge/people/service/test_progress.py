"""The progress of tasks."""

from tests.bridge.people.service.running_node import ALICE, Servers


async def test_only_the_newest_progress_is_shown(servers: Servers) -> None:
    """The first report at once; later ones as edits of the same message."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    task = await running.given()
    assert await running.task_service.begin(task.key) is not None
    await running.task_service.progress(task.key, {"message": "potato 0"})
    first = await servers.there.until_body("potato 0")
    for number in range(1, 50):
        await running.task_service.progress(task.key, {"message": f"potato {number}"})
    edited = await servers.there.until_body("* potato 49")
    assert edited.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": first.event_id}
    assert len([body for body in servers.there.bodies(running.room_id) if "potato" in body]) < 10
    assert edited.content["msgtype"] == first.content["msgtype"] == "m.notice"


async def test_no_progress_is_shown_after_the_end(servers: Servers) -> None:
    """Pending progress is dropped."""
    running = await servers.start_node()
    await servers.join(running.room_id, ALICE)
    asked = await servers.there.say(running.room_id, ALICE, "@worker-1: peel")
    task = await running.given()
    reports = [{"message": f"potato {number}"} for number in range(20)]
    await running.complete(task, "Peeled.", *reports)
    await servers.there.until_reaction(asked, "✅")
    reporting = running.people._progress_reporter
    assert reporting._tasks == {}
    reporting.progress(task, {"message": "too late"})
    [lane] = reporting._tasks.values()
    assert lane.worker is not None
    # The task is shown twice at its end, and the second time drops this report too.
    while (
        (lane.newest is not None and not lane.worker.done()) or running.people.watcher._threads._locks  # type: ignore[attr-defined]
    ):
        await servers.here.rooms.joined_rooms(f"@palaver:{servers.here.name}")
    thread = await running.node.rooms.relations(running.room_id, asked, "m.thread")
    assert "Peeled." in str(thread)
    assert "too late" not in str(thread)
