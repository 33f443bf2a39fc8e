"""`palaver queue`."""

import asyncio

import pytest

from federation.outbox.destination import State
from federation.transactions.edus import ToDevice
from federation.transactions.outgoing_edus import to_device
from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator

TIMEOUT = 30.0


async def until_backing_off(operator: Operator) -> None:
    """Wait until an attempt has failed."""
    async with asyncio.timeout(TIMEOUT):
        while operator.node.outbox.contact("there.test").failure is None or (
            operator.node.outbox.view()["there.test"].state is not State.BACKING_OFF
        ):
            await asyncio.sleep(0.01)


async def shared_room(operator: Operator) -> str:
    """Create a room with a user of each server."""
    here, there = operator.node, operator.there
    room_id = await here.create("12", here.user("alice"))
    await there.membership.join(room_id, there.user("carol"), ["here.test"])
    return room_id


async def test_empty_queues(operator: Operator) -> None:
    """Neither servers nor counts are returned."""
    assert await operator.ask("queue") == {"servers": [], "total": 0, "pdus": 0, "edus": 0}
    with pytest.raises(LocalError, match=r"The queue for there\.test is empty"):
        await operator.ask("queue", server="there.test")


async def test_the_queue_of_a_server_is_shown(operator: Operator) -> None:
    """With its size, age, last failure, next attempt and first entries."""
    here, there = operator.node, operator.there
    room_id = await shared_room(operator)
    there.is_down = True
    sent = await here.say(room_id, here.user("alice"), "one")
    await until_backing_off(operator)
    later = await here.say(room_id, here.user("alice"), "two")
    message = ToDevice(here.user("alice"), "org.test", "m1", {there.user("carol"): {"*": {}}})
    async with here.database.transaction() as connection:
        await here.outbox.queue_edu(connection, ["there.test"], to_device(message))
    every = await operator.ask("queue")
    assert (every["total"], every["pdus"], every["edus"]) == (1, 2, 1)
    [server] = every["servers"]
    assert (server["server"], server["state"], server["failures"]) == ("there.test", "backing_off", 1)
    assert server["failure"].startswith("answered 503")
    assert server["retry_at"] > server["failing_since"] >= server["oldest_at"]
    one = await operator.ask("queue", server="there.test", limit=2)
    assert [(pdu["event_id"], pdu["in_flight"]) for pdu in one["first_pdus"]] == [(sent, True), (later, False)]
    assert one["first_pdus"][0]["type"] == "m.room.message"
    assert [(edu["type"], edu["in_flight"]) for edu in one["first_edus"]] == [("m.direct_to_device", False)]
    assert (one["transaction"]["pdus"], one["transaction"]["edus"]) == (1, 0)
    assert len((await operator.ask("queue", server="there.test", limit=1))["first_pdus"]) == 1


async def test_a_server_with_an_empty_queue_is_shown(operator: Operator) -> None:
    """With the time when it was last reached."""
    here, there = operator.node, operator.there
    room_id = await shared_room(operator)
    sent = await here.say(room_id, here.user("alice"), "one")
    async with asyncio.timeout(TIMEOUT):
        await there.until(lambda event_id, _: event_id == sent)
        while here.outbox.contact("there.test").reached_at is None or (await operator.ask("queue"))["total"]:
            await asyncio.sleep(0.01)
    one = await operator.ask("queue", server="there.test")
    assert (one["first_pdus"], one["transaction"], one["failure"]) == ([], None, None)
    assert one["reached_at"] >= one["heard_at"]
