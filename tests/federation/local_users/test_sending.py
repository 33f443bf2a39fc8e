"""Sending events, setting state, redacting."""

import asyncio

import pytest

from federation.matrix.errors import MatrixError
from federation.matrix.message_content import edit, reaction, reply, text
from storage.connect import DatabaseAddress
from tests.federation.local_users.homes import Home, home_on

EVERY_VERSION = pytest.mark.parametrize("version", ["10", "11", "12"])


async def test_sent_events_arrive_unchanged_at_another_server(pair: tuple[Home, Home]) -> None:
    """With a given timestamp and with relations."""
    here, there = pair
    alice, bob = await here.user("alice"), await there.user("bob")
    room_id = await here.room(alice)
    await there.rooms.join(room_id, bob, via=["here.test"])
    said = await here.say(room_id, alice, "hello", ts=1_600_000_000_000)
    entry = await there.until_event(said)
    assert (entry.kind, entry.event.sender, entry.event.origin_server_ts) == ("timeline", alice, 1_600_000_000_000)
    answer = await there.rooms.send(room_id, bob, "m.room.message", reply(said, text("good day")))
    await here.until_event(answer)
    sign = await there.rooms.send(room_id, bob, "m.reaction", reaction(said, "👍"))
    await here.until_event(sign)
    changed = await here.rooms.send(room_id, alice, "m.room.message", edit(said, text("hello!")))
    await there.until_event(changed)
    for home in pair:
        related = await home.rooms.relations(room_id, said)
        assert [event.event_id for event in related] == [answer, sign, changed]


async def test_sending_with_a_transaction_id_is_idempotent(home: Home, database_address: DatabaseAddress) -> None:
    """Also after a restart of the process."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    sent = await asyncio.gather(*(home.say(room_id, alice, f"{n}", transaction_id=f"{n % 3}") for n in range(9)))
    assert len(set(sent)) == 3
    async with home_on(database_address) as again:
        assert await again.say(room_id, alice, "other", transaction_id="1") == sent[1]
        assert await again.rooms.prune() == 0
    redacted = {await home.rooms.redact(room_id, alice, sent[0], reason="oops", transaction_id="r") for _ in range(2)}
    assert len(redacted) == 1


async def test_state_is_set_once(home: Home) -> None:
    """An event with the same content is not sent, unless the current one was redacted."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    first = await home.rooms.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"})
    assert await home.rooms.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"}) == first
    other = await home.rooms.set_state(room_id, alice, "io.x", {"a": [1, {"b": None}]}, "key", ts=5)
    assert await home.rooms.set_state(room_id, alice, "io.x", {"a": [1, {"b": None}]}, "key") == other
    event = await home.rooms.state_event(room_id, "io.x", "key")
    assert event is not None
    assert (event.origin_server_ts, event.state_key) == (5, "key")
    # Python treats them as equal.
    one, true = [await home.rooms.set_state(room_id, alice, "io.x", {"a": a}, "same") for a in (1, True)]
    assert one != true
    await home.rooms.redact(room_id, alice, first)
    again = await home.rooms.set_state(room_id, alice, "m.room.topic", {"topic": "Soup"})
    assert again != first
    assert await home.state(room_id, "m.room.topic") == {"topic": "Soup"}


@EVERY_VERSION
async def test_users_redact_their_own_events_and_others_with_power(home: Home, version: str) -> None:
    """Other servers would let any user of this server redact another's events; this server does not."""
    alice, bob, eve = [await home.user(name) for name in ("alice", "bob", "eve")]
    room_id = await home.room(alice, version=version)
    for user in (bob, eve):
        await home.rooms.join(room_id, user)
    said = [await home.say(room_id, bob, f"{n}") for n in range(2)]
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await home.rooms.redact(room_id, eve, said[0])
    redaction = await home.rooms.redact(room_id, bob, said[0])
    await home.rooms.redact(room_id, alice, said[1], reason="rude")
    for event_id in said:
        event = await home.rooms.event(room_id, event_id)
        assert event is not None
        assert (event.is_redacted, event.content) == (True, {})
    seen = await home.rooms.event(room_id, redaction)
    assert seen is not None
    assert seen.redacts == said[0]
    for unknown in ("$unknown", "", "\0"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await home.rooms.redact(room_id, alice, unknown)


async def test_invalid_events_are_refused(home: Home) -> None:
    """Event types with an operation of their own, invalid events, and events that the auth rules refuse."""
    alice, bob = await home.user("alice"), await home.user("bob")
    room_id = await home.room(alice)
    message = {"msgtype": "m.text", "body": "x"}
    send, set_state = home.rooms.send, home.rooms.set_state
    for refused, code in (
        (send(room_id, bob, "m.room.message", message), "403 M_FORBIDDEN"),
        (send(room_id, "@bob:there.test", "m.room.message", message), "403 M_FORBIDDEN"),
        (send("!no:here.test", alice, "m.room.message", message), "404 M_NOT_FOUND"),
        (send("!\0:here.test", alice, "m.room.message", message), "404 M_NOT_FOUND"),
        (send(room_id, alice, "m.room.redaction", {"redacts": "$1"}), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", message, transaction_id=""), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", message, transaction_id="\0"), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", message, transaction_id="x" * 256), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", message, ts=-1), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", message, ts=2**53), "400 M_INVALID_PARAM"),
        (send(room_id, alice, "m.room.message", {"body": 1.5}), "400 M_BAD_JSON"),
        (send(room_id, alice, "m.room.message", {"body": "x" * 70_000}), "400 M_BAD_JSON"),
        (send(room_id, alice, "t" * 300, {}), "400 M_BAD_JSON"),
        (set_state(room_id, alice, "m.room.member", {"membership": "join"}, bob), "400 M_INVALID_PARAM"),
        (set_state(room_id, alice, "m.room.encryption", {"algorithm": "x"}), "400 M_INVALID_PARAM"),
        (set_state(room_id, alice, "m.room.server_acl", {"allow": ["x"]}), "400 M_INVALID_PARAM"),
        (set_state(room_id, bob, "m.room.topic", {"topic": "x"}), "403 M_FORBIDDEN"),
    ):
        with pytest.raises(MatrixError, match=code):
            await refused
