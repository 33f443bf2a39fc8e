"""`palaver queue` with a running node."""

import asyncio
import time

import pytest

from bridge.cli.queue import next_attempt, state
from federation.outbox.destination import State
from tests.bridge.cli.conftest import OperatedNode

TIMEOUT = 30.0


async def queued_event(operated: OperatedNode) -> str:
    """Queue an event for `there.test`, which is down, until the first attempt has failed."""
    here, there = operated.node, operated.there
    room_id = await here.create("12", here.user("alice"))
    await there.membership.join(room_id, there.user("carol"), ["here.test"])
    there.is_down = True
    result = await here.say(room_id, here.user("alice"), "one")
    async with asyncio.timeout(TIMEOUT):
        while here.outbox.contact("there.test").failure is None or (
            here.outbox.view()["there.test"].state is not State.BACKING_OFF
        ):
            await asyncio.sleep(0.01)
    return result


async def test_empty_queues_are_reported(operated: OperatedNode) -> None:
    """For all servers, and for one."""
    assert (await operated.palaver("queue")).out == "All queues are empty.\n"
    result = await operated.palaver("queue", "there.test")
    assert (result.code, "The queue for there.test is empty" in result.err) == (1, True)


async def test_queues_are_shown(operated: OperatedNode) -> None:
    """With the servers, the last failure and the entries."""
    result = await queued_event(operated)
    every = (await operated.palaver("queue")).out
    for words in ("there.test", "backing off", "answered 503", "in "):
        assert words in every
    one = (await operated.palaver("queue", "there.test")).out
    for words in (
        result[:12],
        "m.room.message (in flight)",
        "1 event, 0 EDUs",
        "failures in a row",
        "last request from it",
    ):
        assert words in one
    assert (await operated.json("queue", "there.test"))["first_pdus"][0]["event_id"] == result


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"state": "idle"}, "idle"),
        ({"state": "surveying", "catching_up": True}, "counting, catching up"),
        ({"state": "backing_off"}, "waiting"),
        ({"state": "backing_off", "failing_since": 1}, "backing off"),
        ({"state": "something new"}, "something new"),
    ],
)
def test_the_state_of_a_queue(more: dict[str, object], words: str) -> None:
    """An unknown state of a newer node is shown unchanged."""
    one = {"catching_up": False, "failing_since": None, "failure": None, **more}
    assert state(one).plain == words


def test_the_next_attempt() -> None:
    """Now, at a time, or none."""
    assert next_attempt({"retry_at": None}) is None
    assert next_attempt({"retry_at": 0}) is None
    assert next_attempt({"retry_at": 1}) == "now"
    assert next_attempt({"retry_at": int(time.time() * 1000) + 90_500}) == "in 1 min 30 s"
