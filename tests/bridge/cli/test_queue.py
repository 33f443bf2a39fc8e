"""`palaver queue`, from the words to the node and back."""

import asyncio
import time

import pytest

from bridge.cli.queue import next_attempt, state
from federation.outbox.destination import State
from tests.bridge.cli.conftest import Operated

TIMEOUT = 30.0


async def waiting(operated: Operated) -> str:
    """An event that `there.test` would not take, and the attempt that failed."""
    here, there = operated.node, operated.there
    room_id = await here.create("12", here.user("alice"))
    await there.membership.join(room_id, there.user("carol"), ["here.test"])
    there.is_down = True
    said = await here.say(room_id, here.user("alice"), "one")
    async with asyncio.timeout(TIMEOUT):
        while here.outbox.contact("there.test").failure is None or (
            here.outbox.view()["there.test"].state is not State.BACKING_OFF
        ):
            await asyncio.sleep(0.01)
    return said


async def test_nothing_waits(operated: Operated) -> None:
    """Which is said too."""
    assert (await operated.palaver("queue")).out == "Nothing waits.\n"
    said = await operated.palaver("queue", "there.test")
    assert (said.code, "Nothing waits for there.test" in said.err) == (1, True)


async def test_what_waits_is_shown(operated: Operated) -> None:
    """For whom, why, and what it is."""
    said = await waiting(operated)
    every = (await operated.palaver("queue")).out
    for words in ("there.test", "backing off", "answered 503", "in "):
        assert words in every
    one = (await operated.palaver("queue", "there.test")).out
    for words in (
        said[:12],
        "m.room.message (in flight)",
        "1 event, 0 EDUs",
        "failures in a row",
        "last heard from",
    ):
        assert words in one
    assert (await operated.json("queue", "there.test"))["first_pdus"][0]["event_id"] == said


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
def test_what_a_sender_is_at(more: dict[str, object], words: str) -> None:
    """A state that an older command line does not know is shown as the node says it."""
    one = {"catching_up": False, "failing_since": None, "failure": None, **more}
    assert state(one).plain == words


def test_when_a_server_is_tried_next() -> None:
    """Now, then, or nobody knows."""
    assert next_attempt({"retry_at": None}) is None
    assert next_attempt({"retry_at": 0}) is None
    assert next_attempt({"retry_at": 1}) == "now"
    assert next_attempt({"retry_at": int(time.time() * 1000) + 90_500}) == "in 1 min 30 s"
