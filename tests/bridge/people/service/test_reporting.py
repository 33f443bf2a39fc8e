"""Lets people see the progress of tasks."""

from tests.bridge.people.service.scene import ALICE, Stage


async def test_the_newest_is_shown_and_not_each(play: Stage) -> None:
    """The first at once; of what comes close upon it the last one, in the same message."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    task = await scene.given()
    assert await scene.tasks.begin(task.key) is not None
    await scene.tasks.progress(task.key, {"message": "potato 0"})
    first = await play.there.until_body("potato 0")
    for number in range(1, 50):
        await scene.tasks.progress(task.key, {"message": f"potato {number}"})
    edited = await play.there.until_body("* potato 49")
    assert edited.content["m.relates_to"] == {"rel_type": "m.replace", "event_id": first.event_id}
    assert len([body for body in play.there.bodies(scene.room_id) if "potato" in body]) < 10
    assert edited.content["msgtype"] == first.content["msgtype"] == "m.notice"


async def test_nothing_is_reported_after_the_end(play: Stage) -> None:
    """What still waited to be shown is left out, and nothing of it is kept."""
    scene = await play.scene()
    await play.join(scene.room_id, ALICE)
    asked = await play.there.say(scene.room_id, ALICE, "@worker-1: peel")
    task = await scene.given()
    reports = [{"message": f"potato {number}"} for number in range(20)]
    await scene.do(task, "Peeled.", *reports)
    await play.there.until_reaction(asked, "✅")
    reporting = scene.people._reporting
    assert reporting._lanes == {}
    reporting.progress(task, {"message": "too late"})
    [lane] = reporting._lanes.values()
    while lane.newest is not None or scene.people.watcher._showing._turns:  # type: ignore[attr-defined]
        await play.here.rooms.joined_rooms(f"@palaver:{play.here.name}")
    thread = await scene.node.rooms.relations(scene.room_id, asked, "m.thread")
    assert "Peeled." in str(thread)
    assert "too late" not in str(thread)
