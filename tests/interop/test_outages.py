"""Outages between a node and a real Synapse lose nothing."""

import asyncio
import time

import pytest

from tests.support.driven_node import DrivenNode, Gone, Resident
from tests.support.driven_node.fixtures import DrivenNodeFactory
from tests.support.driven_node.followed import Followed
from tests.support.driven_node.walking import shared_room, talk
from tests.support.matrix_client import MatrixClient, Refused
from tests.support.matrix_client.seen import Event
from tests.support.synapse import Synapse
from tests.support.synapse.fixtures import SynapseFactory

pytestmark = [pytest.mark.interop, pytest.mark.xdist_group("outages")]
TIMEOUT = 120.0
MESSAGES, PER_SECOND = 600, 200
AWAY = "A server does not accept transactions; they are queued."


def bodies(events: list[Event]) -> list[str | None]:
    """Return the message bodies in order; None for a redacted one."""
    return [event["content"].get("body") for event in events if event["type"] == "m.room.message"]


async def beside_a_synapse(
    make_driven_node: DrivenNodeFactory, make_synapse: SynapseFactory, *more_peers: str
) -> tuple[DrivenNode, Synapse]:
    """Start a node and a Synapse of its own at the same time."""
    other = await make_synapse(start=False)
    node, _ = await asyncio.gather(make_driven_node([other.server_name, *more_peers]), other.start())
    await other.settled()
    return node, other


async def until_it_has(person: MatrixClient, room_id: str, event_id: str) -> None:
    """Wait until the person's Synapse has the event, without a sync after each event, which would slow it
    down."""
    async with asyncio.timeout(TIMEOUT):
        while True:
            try:
                await person.event(room_id, event_id)
                return
            except Refused:
                await asyncio.sleep(0.05)


async def until_it_reads_the_same(person: MatrixClient, room_id: str, resident: Resident) -> list[Event]:
    """Wait until the whole history is the same, in the same order. A Synapse fetches some missing events in
    the background."""
    expected = [event["event_id"] for event in await resident.history(room_id)]
    async with asyncio.timeout(TIMEOUT):
        while True:
            read = await person.history(room_id)
            if [event["event_id"] for event in read] == expected:
                return read
            await asyncio.sleep(0.1)


async def test_a_killed_synapse_catches_up(make_driven_node: DrivenNodeFactory, make_synapse: SynapseFactory) -> None:
    """With all messages of two rooms in order, and with redactions."""
    node, other = await beside_a_synapse(make_driven_node, make_synapse)
    alice, bob = await node.user("alice"), await other.person()
    kitchen, cellar = [await shared_room(alice, bob) for _ in range(2)]
    await bob.wait_for_event(await alice.say(kitchen, "before"))
    await other.kill()
    # More than a Synapse processes of one room at once.
    missed = [await alice.say(kitchen, f"missed {number}") for number in range(150)]
    await alice.edit(kitchen, missed[0], "mended")
    await alice.redact(kitchen, missed[1])
    await alice.set_state(kitchen, "m.room.topic", {"topic": "missed"})
    below = [await alice.say(cellar, f"missed {number}") for number in range(20)]
    last = await alice.say(kitchen, "last")
    await other.start()
    await until_it_has(bob, kitchen, last)
    await until_it_has(bob, cellar, below[-1])
    for room_id in (kitchen, cellar):
        theirs = await until_it_reads_the_same(bob, room_id, alice)
        assert bodies(theirs) == bodies(await alice.history(room_id))
    assert (await bob.state(kitchen, "m.room.topic")) == {"topic": "missed"}
    assert (await bob.event(kitchen, missed[1]))["content"] == {}
    await talk(kitchen, alice, bob)
    assert {line["event"] for line in node.complaints()} <= {AWAY}


async def test_a_node_killed_while_it_receives_loses_nothing(
    make_driven_node: DrivenNodeFactory, synapse: Synapse
) -> None:
    """A thousand messages of four people at full speed. The node is killed while it receives and while it
    catches up. A stream reader has each message once, in the order of its sender."""
    senders = [await synapse.person() for _ in range(4)]
    node = await make_driven_node([synapse.server_name])
    alice = await node.user("alice")
    room_id = await shared_room(senders[0], *senders[1:], alice)
    followed = await node.follow("reader")

    async def speak(sender: MatrixClient) -> list[str]:
        return [await sender.say(room_id, f"{number}") for number in range(250)]

    speaking = asyncio.gather(*(speak(sender) for sender in senders))
    for heard in (150, 400):
        await followed.until(lambda seen, heard=heard: len(messages(seen, room_id)) >= heard, TIMEOUT)
        await node.kill()
        await node.start()
        await node.follow("reader")
    said = await speaking
    await followed.until(lambda seen: len(messages(seen, room_id)) >= 1000, TIMEOUT)
    heard = messages(followed, room_id)
    assert len(heard) == 1000
    for sender, events in zip(senders, said, strict=True):
        assert [event["event_id"] for event in heard if event["sender"] == sender.user_id] == events
    fates = await node.call("fates", room_id=room_id)
    assert {verdict for verdict, _ in fates.values()} == {"accepted"}
    # A second reader gets the same entries at the same positions.
    again = await node.follow("reader from the beginning")
    await again.until(lambda again: again.upto >= followed.upto, TIMEOUT)
    assert again.entries == followed.entries
    await talk(room_id, alice, senders[0])


async def test_a_restarted_node_fetches_missed_events(
    make_driven_node: DrivenNodeFactory, make_synapse: SynapseFactory
) -> None:
    """A Synapse that was restarted meanwhile only sends the last event of a room. The node requests the rest,
    and a stream reader has all events in order."""
    node, other = await beside_a_synapse(make_driven_node, make_synapse)
    alice, bob = await node.user("alice"), await other.person()
    room_id = await shared_room(bob, alice)
    await talk(room_id, alice, bob)
    followed = await node.follow("reader")
    assert await node.stop() == 0
    missed = [await bob.say(room_id, f"missed {number}") for number in range(150)]
    await bob.redact(room_id, missed[1])
    await other.stop()
    await asyncio.gather(other.start(), node.start())
    await node.follow("reader")
    last = await bob.say(room_id, "last")
    await alice.wait_for_event(last, deadline=TIMEOUT)
    await followed.until(lambda seen: seen.events[-1]["event_id"] == last, TIMEOUT)
    heard = [event["event_id"] for event in messages(followed, room_id)]
    assert heard[-151:] == [*missed, last]
    asked = "/_matrix/federation/v1/get_missing_events/{roomId}"
    assert await node.metric("palaver_federation_request_seconds_count", endpoint=asked) > 0
    await until_it_reads_the_same(bob, room_id, alice)
    assert node.complaints() == []


def messages(followed: Followed, room_id: str) -> list[Event]:
    return [event for event in followed.events if (event["room_id"], event["type"]) == (room_id, "m.room.message")]


async def test_a_node_killed_while_it_sends_sends_everything_once(
    make_driven_node: DrivenNodeFactory, synapse: Synapse
) -> None:
    """Its users retry, under the same transaction ids, unanswered and answered requests. Each is one event,
    here and on the Synapse."""
    bob = await synapse.person()
    node = await make_driven_node([synapse.server_name])
    alice = await node.user("alice")
    room_id = await shared_room(alice, bob)
    answered: dict[int, str] = {}

    async def speak(numbers: range) -> None:
        for number in numbers:
            event_id = await alice.say(room_id, f"{number}", txn_id=f"transaction {number}")
            assert answered.setdefault(number, event_id) == event_id

    for killed_at in (70, 200, None):
        speaking = asyncio.gather(*(speak(range(start, 300, 10)) for start in range(10)), return_exceptions=True)
        if killed_at is not None:
            while len(answered) < killed_at:
                await asyncio.sleep(0.001)
            await node.kill()
            assert any(isinstance(end, Gone) for end in await speaking)
            await node.start()
        else:
            assert await speaking == [None] * 10
    assert len(set(answered.values())) == 300
    last = (await alice.history(room_id))[-1]["event_id"]
    await until_it_has(bob, room_id, last)
    for person in (alice, bob):
        said = bodies(await person.history(room_id))
        assert len(said) == 300
        assert set(said) == {str(number) for number in range(300)}
    await talk(room_id, alice, bob)


async def test_keys_are_rotated_during_a_conversation(
    make_driven_node: DrivenNodeFactory, make_synapse: SynapseFactory, synapse: Synapse
) -> None:
    """First that of the node, then that of the Synapse. Earlier and later messages are accepted by both, and
    by a server that joins later and has never seen the old keys."""
    node, other = await beside_a_synapse(make_driven_node, make_synapse, synapse.server_name)
    alice, bob, carol = await node.user("alice"), await other.person(), await synapse.person()
    room_id = await shared_room(alice, bob)
    await talk(room_id, alice, bob)
    code, rotated = await node.cli("keys", "rotate")
    assert (code, len(rotated["old_keys"])) == (0, 1)
    await talk(room_id, alice, bob)
    await other.rotate_key()
    await talk(room_id, alice, bob)
    # A server gives others what it has itself.
    await until_it_reads_the_same(bob, room_id, alice)
    await carol.join(room_id, via=[node.server_name])
    history = await until_it_reads_the_same(carol, room_id, alice)
    assert bodies(history) == ["hello"] * 6
    for one, other_one in ((carol, alice), (carol, bob)):
        await talk(room_id, one, other_one)
    fates = await node.call("fates", room_id=room_id)
    assert {verdict for verdict, _ in fates.values()} == {"accepted"}


async def test_a_stream_of_messages_causes_no_state_requests(
    make_driven_node: DrivenNodeFactory, synapse: Synapse
) -> None:
    """The node's events are a chain, and forks by Synapse's users are joined at once: at two hundred events a
    second it never requests state."""
    bob = await synapse.person()
    node = await make_driven_node([synapse.server_name])
    alice = await node.user("alice")
    room_id = await shared_room(alice, bob)
    began = time.monotonic()
    saying: list[asyncio.Task[str]] = []
    interrupting: list[asyncio.Task[str]] = []
    for number in range(MESSAGES):
        if number % PER_SECOND == 0:
            interrupting.append(asyncio.create_task(bob.say(room_id, "Wait!")))
        await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
        saying.append(asyncio.create_task(alice.say(room_id, f"{number}")))
    said = await asyncio.gather(*saying)
    for interruption in interrupting:
        await alice.wait_for_event(await interruption)
    await until_it_has(bob, room_id, said[-1])
    history = [event["event_id"] for event in await bob.history(room_id)]
    assert [event_id for event_id in history if event_id in set(said)] == said
    asked = {request.endpoint for request in synapse.requests_made(to=node.server_name)}
    assert {"make_join", "send_join"} <= asked
    assert asked.isdisjoint({"state_ids", "state", "event", "get_missing_events"})
    assert node.complaints() == []
