"""Sending events, setting state, redacting."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from appservice.homeserver.api import HomeserverUnavailable
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.local_users.sending import AT_ONCE, Sending
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import edit, in_thread, reaction, text
from tests.appservice.local_users.setup import AttachedNode

ALICE = "@alice:their.server"
GHOST = "@_agent_worker-1:their.server"
OTHER = "@_agent_worker-2:their.server"
ROOM = "!room:their.server"
MESSAGE = "m.room.message"


@pytest.fixture
async def sending(attached: AttachedNode) -> AsyncIterator[Sending]:
    for user in (GHOST, OTHER):
        await attached.parts.ghosts.ensure_user(user)
    attached.rooms.room(ROOM, GHOST, OTHER)
    await attached.tell()
    sending = Sending(attached.parts)
    yield sending
    await sending.close()


async def once_more(attached: AttachedNode) -> Sending:
    """By a restarted process."""
    return Sending(await attached.again())


async def test_message_is_one_request(attached: AttachedNode, sending: Sending) -> None:
    """Except for the first one in a room, which scans its timeline."""
    await sending.send(ROOM, GHOST, MESSAGE, text("0"), transaction_id="0")
    before = len(attached.homeserver.targets)
    for n in range(1, 4):
        await sending.send(ROOM, GHOST, MESSAGE, text(f"{n}"), transaction_id=f"{n}", ts=n)
    assert len(attached.homeserver.targets) == before + 3
    await sending.send(ROOM, GHOST, "io.x", {"n": 1})
    event = attached.rooms.happened[ROOM][-1]
    assert (event["type"], event["sender"], event["content"]) == ("io.x", GHOST, {"n": 1})
    assert attached.rooms.bodies(ROOM) == ["0", "1", "2", "3"]
    assert [one["origin_server_ts"] for one in attached.rooms.happened[ROOM]][-4:-1] == [1, 2, 3]


async def test_transaction_id_is_idempotent(attached: AttachedNode, sending: Sending) -> None:
    """Concurrently, later, after a restart, and after the homeserver has forgotten it."""
    sent = await asyncio.gather(
        *(sending.send(ROOM, GHOST, MESSAGE, text(f"{n}"), transaction_id=f"{n % 3}") for n in range(9))
    )
    assert len(set(sent)) == 3
    assert attached.rooms.bodies(ROOM) == ["0", "1", "2"]
    attached.rooms.restarted()
    # They are not pushed yet.
    again = await once_more(attached)
    assert await again.send(ROOM, GHOST, MESSAGE, text("other"), transaction_id="1") == sent[1]
    await attached.tell()
    much_later = await once_more(attached)
    assert await much_later.send(ROOM, GHOST, MESSAGE, text("other"), transaction_id="1") == sent[1]
    assert attached.rooms.bodies(ROOM) == ["0", "1", "2"]
    others = [
        await sending.send(ROOM, OTHER, MESSAGE, text("3"), transaction_id="1"),
        await sending.send(ROOM, GHOST, MESSAGE, text("4")),
        await sending.send(ROOM, GHOST, MESSAGE, text("4")),
    ]
    assert len({*sent, *others}) == 6


@pytest.mark.parametrize("loses", ["before", "after"])
@pytest.mark.parametrize("restarted", [True, False])
async def test_lost_response_is_resolved(attached: AttachedNode, sending: Sending, loses: str, restarted: bool) -> None:
    """Whether or not the event was created, a repetition creates one event; others' sends are unaffected."""
    await sending.send(ROOM, GHOST, MESSAGE, text("before"), transaction_id="0")
    attached.rooms.loses = loses
    with pytest.raises(HomeserverUnavailable):
        await sending.send(ROOM, GHOST, MESSAGE, text("once"), transaction_id="1")
    attached.rooms.loses = None
    if restarted:
        attached.rooms.restarted()
    for n in range(150):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"alice {n}"})
    repeated = await sending.send(ROOM, GHOST, MESSAGE, text("once"), transaction_id="1")
    assert repeated in {one["event_id"] for one in attached.rooms.happened[ROOM]}
    assert [body for body in attached.rooms.bodies(ROOM) if not body.startswith("alice")] == ["before", "once"]


async def test_copied_keys_do_not_count(attached: AttachedNode, sending: Sending) -> None:
    """Of other senders."""
    sent = await sending.send(ROOM, GHOST, MESSAGE, text("mine"), transaction_id="1")
    key = attached.rooms.happened[ROOM][-1]["content"][TRANSACTION_KEY]
    attached.rooms.happened[ROOM].pop()
    attached.rooms.untold.clear()
    attached.rooms.restarted()
    for content in ({TRANSACTION_KEY: key, "body": "copied"}, {TRANSACTION_KEY: 5}, {TRANSACTION_KEY: [key]}):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, content)
    again = await once_more(attached)
    assert await again.send(ROOM, GHOST, MESSAGE, text("mine"), transaction_id="1") != sent
    assert attached.rooms.bodies(ROOM) == ["copied", "mine"]
    # An agent cannot set the key of a later event.
    await again.send(ROOM, GHOST, MESSAGE, {"body": "x", TRANSACTION_KEY: key})
    assert attached.rooms.happened[ROOM][-1]["content"] == {"body": "x"}


async def test_lanes_keep_their_order(attached: AttachedNode, sending: Sending) -> None:
    """Different threads are sent concurrently, within limits."""
    attached.rooms.held = asyncio.Event()
    asked: list[Any] = [text(f"main {n}") for n in range(3)]
    asked += [in_thread(f"$t{n % 50}", text(f"thread {n}")) for n in range(100)]
    asked += [reaction("$1", "👍"), edit("$1", text("edited"))]
    async with asyncio.TaskGroup() as group:
        for n, content in enumerate(asked):
            group.create_task(sending.send(ROOM, GHOST, MESSAGE, content, transaction_id=f"{n}"))
        while attached.rooms.at_once < AT_ONCE:
            await asyncio.sleep(0)
        attached.rooms.held.set()
    bodies = attached.rooms.bodies(ROOM)
    assert [body for body in bodies if body.startswith("main")] == ["main 0", "main 1", "main 2"]
    for n in range(50):
        assert bodies.index(f"thread {n}") < bodies.index(f"thread {n + 50}")
    assert attached.rooms.most_at_once == AT_ONCE


async def test_busy_sender_does_not_block_others(attached: AttachedNode, sending: Sending) -> None:
    """A room has one limit for all senders, and each sender waits at most for one limit's worth of another's
    events."""
    attached.rooms.held = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for n in range(50):
            group.create_task(sending.send(ROOM, GHOST, MESSAGE, in_thread(f"$t{n}", text(f"much {n}"))))
        while attached.rooms.at_once < AT_ONCE:
            await asyncio.sleep(0)
        group.create_task(sending.send(ROOM, OTHER, MESSAGE, text("a word")))
        # Enough iterations of the event loop to be in the queue.
        for _ in range(50):
            await asyncio.sleep(0)
        assert attached.rooms.at_once == AT_ONCE
        attached.rooms.held.set()
    assert attached.rooms.most_at_once == AT_ONCE
    assert attached.rooms.bodies(ROOM).index("a word") <= 3 * AT_ONCE


async def test_queue_of_a_room_is_limited(
    attached: AttachedNode, sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further events are refused until there is space."""
    monkeypatch.setattr("appservice.local_users.sending.MAX_WAITING", 10)
    attached.rooms.held = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for n in range(10):
            transaction_id = f"{n}" if n % 2 else None
            content = in_thread(f"$t{n}", text(f"{n}"))
            group.create_task(sending.send(ROOM, GHOST, MESSAGE, content, transaction_id=transaction_id))
        while attached.rooms.at_once < AT_ONCE:
            await asyncio.sleep(0)
        for refused in (
            sending.send(ROOM, OTHER, MESSAGE, text("more")),
            sending.send(ROOM, OTHER, MESSAGE, text("more"), transaction_id="more"),
            sending.set_state(ROOM, OTHER, "io.x", {}),
        ):
            with pytest.raises(MatrixError, match="Too many events are queued") as limited:
                await refused
            assert limited.value.status == 429
        attached.rooms.held.set()
    await sending.send(ROOM, OTHER, MESSAGE, text("more"), transaction_id="more")
    assert attached.rooms.bodies(ROOM)[-1] == "more"


async def test_scan_does_not_count_for_the_limit(attached: AttachedNode, sending: Sending) -> None:
    """Only sends in progress do."""
    again = await sending.send(ROOM, GHOST, MESSAGE, text("again"), transaction_id="again")
    attached.rooms.held = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for n in range(AT_ONCE):
            group.create_task(sending.send(ROOM, GHOST, MESSAGE, in_thread(f"$t{n}", text(f"{n}"))))
        while attached.rooms.at_once < AT_ONCE:
            await asyncio.sleep(0)
        assert await sending.send(ROOM, GHOST, MESSAGE, text("again"), transaction_id="again") == again
        attached.rooms.held.set()


async def test_cancelled_caller_does_not_cancel_the_event(attached: AttachedNode, sending: Sending) -> None:
    """A repetition returns the same event."""
    attached.rooms.held = asyncio.Event()
    asking = asyncio.create_task(sending.send(ROOM, GHOST, MESSAGE, text("once"), transaction_id="1"))
    while attached.rooms.at_once == 0:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    attached.rooms.held.set()
    await sending.send(ROOM, GHOST, MESSAGE, text("once"), transaction_id="1")
    assert attached.rooms.bodies(ROOM) == ["once"]


async def test_unchanged_state_is_not_sent(attached: AttachedNode, sending: Sending) -> None:
    """Changes are visible before they are pushed. 1 and true differ."""
    first = await sending.set_state(ROOM, GHOST, "m.room.topic", {"topic": "Soup"})
    assert await sending.set_state(ROOM, OTHER, "m.room.topic", {"topic": "Soup"}) == first
    other = await sending.set_state(ROOM, GHOST, "io.x", {"a": 1}, "a/b ü", ts=5)
    assert await sending.set_state(ROOM, GHOST, "io.x", {"a": 1}, "a/b ü") == other
    assert await sending.set_state(ROOM, GHOST, "io.x", {"a": True}, "a/b ü") != other
    assert len(attached.asked("PUT")) == 3
    entry = attached.rooms.entry(ROOM, "io.x", "a/b ü")
    assert entry is not None
    known = await attached.parts.rooms.state_event(ROOM, "io.x", "a/b ü")
    assert known is not None
    assert (known.event_id, known.content) == (entry["event_id"], {"a": True})
    assert await (await once_more(attached)).set_state(ROOM, GHOST, "m.room.topic", {"topic": "Soup"}) == first


async def test_redaction_of_existing_events(attached: AttachedNode, sending: Sending) -> None:
    """Whether or not they are pushed yet."""
    said = await sending.send(ROOM, GHOST, MESSAGE, text("oops"))
    redacted = {await sending.redact(ROOM, GHOST, said, reason="oops", transaction_id="r") for _ in range(2)}
    assert redacted == {attached.rooms.happened[ROOM][-1]["event_id"]}
    content = attached.rooms.happened[ROOM][-1]["content"]
    assert (content["redacts"], content["reason"]) == (said, "oops")
    await attached.tell()
    before = len(attached.asked("GET"))
    await sending.redact(ROOM, GHOST, said)
    assert len(attached.asked("GET")) == before
    topic = await sending.set_state(ROOM, GHOST, "m.room.topic", {"topic": "Soup"})
    await sending.redact(ROOM, GHOST, topic)
    assert await sending.set_state(ROOM, GHOST, "m.room.topic", {"topic": "Soup"}) != topic
    attached.rooms.room("!other:their.server", GHOST)
    elsewhere = attached.rooms.happens("!other:their.server", GHOST, MESSAGE, {})
    await attached.tell()
    for unknown in ("$unknown", "", "\0", "$\0", "$" + "x" * 300, "$\ud800", elsewhere):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await sending.redact(ROOM, GHOST, unknown)


async def test_invalid_events_are_refused(attached: AttachedNode, sending: Sending) -> None:
    """Events with their own operations, invalid events, and what the homeserver refuses."""
    eve = "@_agent_eve:their.server"
    attached.rooms.moves(ROOM, OTHER, "ban", ALICE)
    await attached.tell()
    send, set_state, message = sending.send, sending.set_state, text("x")
    for refused, code in (
        (send(ROOM, eve, MESSAGE, message), "403 M_FORBIDDEN"),
        (send(ROOM, ALICE, MESSAGE, message), "403 M_FORBIDDEN"),
        (send("!no:their.server", GHOST, MESSAGE, message), "404 M_NOT_FOUND"),
        (send("!\0:their.server", GHOST, MESSAGE, message), "404 M_NOT_FOUND"),
        (send("", GHOST, MESSAGE, message), "404 M_NOT_FOUND"),
        (send(ROOM, GHOST, "m.room.redaction", {"redacts": "$1"}), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, message, transaction_id=""), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, message, transaction_id="\0"), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, message, transaction_id="x" * 256), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, message, ts=-1), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, message, ts=2**53), "400 M_INVALID_PARAM"),
        (send(ROOM, GHOST, MESSAGE, {"body": 1.5}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, MESSAGE, {"body": "\ud800"}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, "t" * 300, {}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, "a\0b", {}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, "\ud800", {}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, "", {}), "400 M_BAD_JSON"),
        (send(ROOM, GHOST, "..", {}), "400 M_INVALID_PARAM"),
        (set_state(ROOM, GHOST, "io.x", {}, "k" * 300), "400 M_BAD_JSON"),
        (set_state(ROOM, GHOST, "io.x", {}, "\0"), "400 M_BAD_JSON"),
        (set_state(ROOM, GHOST, "m.room.member", {"membership": "join"}, OTHER), "400 M_INVALID_PARAM"),
        (set_state(ROOM, GHOST, "m.room.encryption", {"algorithm": "x"}), "400 M_INVALID_PARAM"),
        (set_state(ROOM, GHOST, "m.room.server_acl", {"allow": ["x"]}), "400 M_INVALID_PARAM"),
        (set_state("", GHOST, "io.x", {}), "404 M_NOT_FOUND"),
        (sending.redact("", GHOST, "$1"), "404 M_NOT_FOUND"),
        (send(ROOM, GHOST, "io.odd", {}), "400 M_BAD_JSON"),
        (send(ROOM, OTHER, MESSAGE, message), "403 M_FORBIDDEN"),
    ):
        with pytest.raises(MatrixError, match=code):
            await refused
    assert attached.rooms.bodies(ROOM) == []
