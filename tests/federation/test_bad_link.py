"""Nodes with unreliable links between them agree in the end."""

import asyncio
from collections import Counter

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.receive import MAX_REFUSALS
from federation.rooms.send import BATCH_SIZE
from federation.transactions import outgoing_edus
from federation.transactions.edus import ToDevice
from tests.federation.far_apart import FarApart, far_apart
from tests.federation.random_walk import RandomWalk
from tests.federation.shared_room import Known, known, shared_room
from tests.support.bad_link import Trouble
from tests.support.postgres import Server

VERSIONS = pytest.mark.parametrize("version", ["10", "11", "12"])
ONE, TWO, THREE = "one.test", "two.test", "three.test"
HOUR_MS = 3_600_000
WALKS = 1
"""Of each room version. What happens depends on the machine's timing too, so that more find more."""


async def until_known(far: FarApart, name: str, event_id: str) -> None:
    async with asyncio.timeout(30):
        await far[name].until(lambda known_id, _: known_id == event_id)


@pytest.mark.parametrize("seed", range(WALKS))
@VERSIONS
async def test_after_a_random_walk_all_agree(
    postgres_server: Server, migrated_template: str, version: str, seed: int
) -> None:
    """On the current state, on the state before each event, on the set of events and on their redactions;
    each event is delivered once, none is rejected, and the only soft-failed ones were sent by users who
    were being moderated."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO, THREE], f"{version} {seed}") as far:
        room = await shared_room(far, version)
        await RandomWalk(far, room).go(50)
        of = await room.check()
        said = [pdu.content.get("body") for pdu in of[ONE].shown.values() if not pdu.content.get("m.relates_to")]
        counted = Counter(body for body in said if body not in (None, "Well?"))
        assert set(counted.values()) == {1}, "nothing is said twice, although it was tried again"


@VERSIONS
async def test_a_partition_that_a_third_node_sees_both_sides_of(
    postgres_server: Server, migrated_template: str, version: str
) -> None:
    """Either side gets the other's events through the third node. A user banned on one side continues on
    the other; the nodes that received the ban first soft-fail those events, and in the end the user is
    banned everywhere."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO, THREE]) as far:
        room = await shared_room(far, version)
        for link in far.between([ONE], [TWO]):
            link.cut()
        for link in far.between([TWO], [THREE]):
            link.cut()
        banned = await far[ONE].graph.send_event(
            room.room_id, "m.room.member", {"membership": "ban"}, f"@alice:{ONE}", f"@eve:{TWO}"
        )
        await until_known(far, THREE, banned.event_id)
        late = await far[TWO].say(room.room_id, f"@eve:{TWO}", "am I?")
        fine = await far[TWO].say(room.room_id, f"@fay:{TWO}", "you are not")
        names = {name: await far[name].rooms.set_state(
            room.room_id, f"@alice:{name}", "m.room.name", {"name": name}
        ) for name in (ONE, TWO)}  # fmt: skip
        for link in far.between([TWO], [THREE]):
            link.heal()
        far.leap()
        await until_known(far, THREE, names[TWO])
        said = await far[THREE].say(room.room_id, f"@alice:{THREE}", "calm down, both of you")
        await until_known(far, TWO, said)
        await until_known(far, ONE, said)
        # The two still have had no contact.
        for name, theirs in ((ONE, names[TWO]), (TWO, names[ONE])):
            assert (await far[name].graph.known_events([theirs]))[theirs].verdict == "accepted"
            assert await far[name].membership_of(room.room_id, f"@eve:{TWO}") == "ban"
        of = await room.check()
        assert {name: of[name].verdicts[late] for name in of} == {
            ONE: "soft_failed", TWO: "accepted", THREE: "soft_failed"
        }  # fmt: skip
        assert {of[name].verdicts[fine] for name in of} == {"accepted"}


@VERSIONS
async def test_a_join_with_a_lost_response_is_repaired(
    postgres_server: Server, migrated_template: str, version: str
) -> None:
    """The remote server considers this server joined and sends events of an unknown room. Joining again
    repairs it."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO]) as far:
        link = far.links[TWO, ONE]
        for trouble in Trouble:
            room_id = await far[ONE].create(version, f"@alice:{ONE}")
            link.befall({trouble: 1.0}, of="/send_join/")
            joining = far[TWO].rooms.join(room_id, f"@alice:{TWO}", via=[ONE])
            if trouble in (Trouble.TWICE, Trouble.AT_ONCE, Trouble.AGAIN):
                await joining
            else:
                with pytest.raises(MatrixError, match="502"):
                    await joining
                is_in = trouble in (Trouble.LOST_ANSWER, Trouble.HALF_ANSWER)
                assert (await far[ONE].membership_of(room_id, f"@alice:{TWO}") == "join") is is_in
                await far[ONE].say(room_id, f"@alice:{ONE}", "welcome")
                link.heal()
                await far[TWO].rooms.join(room_id, f"@alice:{TWO}", via=[ONE])
            await far.converge(room_id, {name: f"@alice:{name}" for name in far.names})
            here, there = [await known(far[name], room_id) for name in far.names]
            assert here.state == there.state
            assert here.ends == there.ends
        assert link.befell.keys() == set(Trouble)


async def test_everything_arrives_twice_and_counts_once(postgres_server: Server, migrated_template: str) -> None:
    """One after the other, concurrently, or after newer data: joins, invites, knocks, events, and
    to-device messages."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO]) as far:
        for link in far.links.values():
            link.duplicate()
        room = await shared_room(far, "12", others=[f"@eve:{TWO}"])
        for link in far.links.values():
            link.duplicate()
        async with far[ONE].database.transaction() as connection:
            for number in range(20):
                message = ToDevice(f"@eve:{ONE}", "m.test", str(number), {f"@eve:{TWO}": {"*": {"n": number}}})
                await far[ONE].outbox.queue_edu(connection, [TWO], outgoing_edus.to_device(message))
        for number in range(20):
            await asyncio.gather(*(far[name].say(room.room_id, f"@alice:{name}", str(number)) for name in far.names))
        await far[ONE].rooms.invite(room.room_id, f"@alice:{ONE}", f"@fay:{TWO}")
        await far[TWO].rooms.join(room.room_id, f"@fay:{TWO}")
        await room.check()
        messages = await far[TWO].rooms.device_messages(f"@eve:{TWO}")
        assert sorted(message.content["n"] for message in messages) == list(range(20))
        befell = sum((link.befell for link in far.links.values()), Counter())
        assert min(befell[trouble] for trouble in (Trouble.TWICE, Trouble.AT_ONCE, Trouble.AGAIN)) > 0


async def test_events_wait_until_missing_events_can_be_fetched(postgres_server: Server, migrated_template: str) -> None:
    """One direction of the link is cut. Events after unknown ones stay queued at their server, and none is
    lost. After some attempts they no longer delay the others."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO, THREE]) as far:
        room = await shared_room(far, "11", others=[])
        aside = await shared_room(far, "11", others=[])
        far.links[TWO, ONE].cut()
        far.links[TWO, THREE].cut()
        heard = await far[THREE].say(room.room_id, f"@alice:{THREE}", "do you hear me?")
        await until_known(far, TWO, heard)
        far.links[ONE, TWO].cut()
        unknown = await far[ONE].say(room.room_id, f"@alice:{ONE}", "a secret")
        await until_known(far, THREE, unknown)
        follows = await far[THREE].say(room.room_id, f"@alice:{THREE}", "I agree")
        other = await far[THREE].say(aside.room_id, f"@alice:{THREE}", "and something else")
        refused = ("/_matrix/federation/v1/send/{txn_id}", "PUT", 503)
        while far[TWO].seen.answered.count(refused) < MAX_REFUSALS:
            assert await far[TWO].graph.events([follows, other]) == {}
            far.leap()
            # The state of the sender can only be polled.
            await asyncio.sleep(0.005)
        far.leap(2 * HOUR_MS)
        await until_known(far, TWO, other)
        assert far[TWO].seen.answered.count(refused) == MAX_REFUSALS
        assert await far[TWO].graph.events([follows]) == {}
        await room.check()
        await aside.check()


async def test_a_node_catches_up_after_a_long_outage(postgres_server: Server, migrated_template: str) -> None:
    """Both sides have sent more than one request to a peer can return."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO]) as far:
        room = await shared_room(far, "12", others=[])
        for link in far.links.values():
            link.cut()
        for name in far.names:
            words = map(str, range(130))
            await asyncio.gather(*(far[name].say(room.room_id, f"@alice:{name}", one) for one in words))
            await far[name].rooms.set_state(room.room_id, f"@alice:{name}", "m.room.topic", {"topic": name})
        far.leap(2 * HOUR_MS)
        of = await room.check()
        assert len(of[ONE].verdicts.keys() - room.since) >= 262
        for name in far.names:
            here, there = ([one for one in of[at].told if is_by(name, of[at], one)] for at in far.names)
            assert here[-130:] == there[-130:], "what each side has said stays in its order"


async def test_killed_nodes_resume(postgres_server: Server, migrated_template: str) -> None:
    """The sending and the receiving node, during a burst larger than one transaction. Transactions without
    a response are repeated with the same id, and each event is stored once."""
    async with far_apart(postgres_server, migrated_template, [ONE, TWO]) as far:
        room = await shared_room(far, "12", others=[])
        said = [str(number) for number in range(5 * BATCH_SIZE)]

        async def say(body: str) -> str:
            content = {"msgtype": "m.text", "body": body}
            return await far[ONE].rooms.send(
                room.room_id, f"@alice:{ONE}", "m.room.message", content, transaction_id=body
            )

        for name in (ONE, TWO, ONE):
            saying = [asyncio.create_task(say(body)) for body in said]
            await asyncio.wait(saying, return_when=asyncio.FIRST_COMPLETED)
            await far.kill(name)
            await asyncio.wait(saying)
            assert name == TWO or any(task.exception() for task in saying)
            await far.start_again(name)
        await asyncio.gather(*map(say, said))
        of = await room.check()
        for one in of.values():
            bodies = Counter(one.shown[event_id].content.get("body") for event_id in one.told)
            assert [bodies[body] for body in said] == [1] * len(said)


def is_by(name: str, one: Known, event_id: str) -> bool:
    return one.shown[event_id].sender == f"@alice:{name}"
