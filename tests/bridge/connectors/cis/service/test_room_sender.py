"""Sending events to rooms."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.event_record import Verdict
from bridge.connectors.cis.protocol.events import Message, StatusUpdate
from bridge.connectors.cis.protocol.rooms import FederationRoom
from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.service.sender import NotSent, RoomSender, Sent
from bridge.connectors.cis.settings import CisSettings
from federation.events.room_event import RoomEvent
from tests.bridge.connectors.cis.cis_nodes import CisNodes, RecordingObserver
from tests.bridge.connectors.cis.event_builders import NOON
from tests.federation.nodes import Node
from tests.support.ghosts import ghosts_of

WORKER = AgentAddress("worker-1", "a.test")
GHOST = "@worker-1:a.test"
ROOM = FederationRoom("default", "a.test")
WHERE = "!agent-federation-default:a.test"


def message(payload: object, name: str = "m") -> Message:
    return Message(message_id=name, from_agent=WORKER, to_agent=None, message_type="x", payload=payload, timestamp=NOON)


class SenderFixture:
    def __init__(self, node: Node, settings: CisSettings) -> None:
        self.node, self.settings, self.observer = node, settings, RecordingObserver()
        self.ghosts = ghosts_of(node)
        self.room_sender = RoomSender(node.rooms, settings, self.observer, self.ghosts)

    async def make(self) -> None:
        await self.ghosts.ensure(self.settings.node_user)
        await OwnRooms(self.node.rooms, self.settings, self.observer).create_all()

    async def said(self) -> list[RoomEvent]:
        page = await self.node.rooms.messages(WHERE)
        return [event for event in page.events if event.type.startswith("io.cis.agent.")]


@pytest.fixture(params=["public", "invite"])
async def fixture(nodes: CisNodes, request: pytest.FixtureRequest) -> AsyncIterator[SenderFixture]:
    [node] = await nodes.start("a.test")
    fixture = SenderFixture(node, CisSettings("a.test", join_rule=request.param))
    await fixture.make()
    yield fixture
    await fixture.room_sender.close()


async def test_an_agent_joins_a_room_before_it_first_sends(fixture: SenderFixture) -> None:
    """With its display name, under any join rule."""
    said = await fixture.room_sender.send(message("hello"), ROOM, WORKER, "one")
    assert isinstance(said, Sent)
    [event] = await fixture.said()
    assert (event.event_id, event.sender, event.content["payload"]) == (said.event_id, GHOST, "hello")
    members = {one.user_id: one.displayname for one in await fixture.node.rooms.members(WHERE)}
    assert members == {"@palaver:a.test": "Palaver", GHOST: "worker-1"}


async def test_other_nodes_see_the_agents_profile(nodes: CisNodes) -> None:
    """The configured name, and an avatar that they can fetch."""
    here, there = await nodes.start_peers("a.test", "b.test")
    here.local_agents.names["worker-1"] = "The worker"
    await here.local_agents.register("worker-1")
    await there.wait_joined("a.test")
    assert isinstance(await here.connector.send_message(WORKER, None, "x", "hello"), Sent)
    await there.observer.until_recorded(Verdict.TAKEN, Message.TYPE, "a.test")
    members = {one.user_id: one for one in await there.node.rooms.members("!agent-broadcast:a.test")}
    assert members[GHOST].displayname == "The worker"
    for user in (GHOST, "@palaver:a.test"):
        url = members[user].avatar_url
        assert url is not None
        async with there.node.rooms.download(url) as media:
            assert media.info.content_type == "image/png"
    assert here.observer.problems == []


async def test_an_event_with_the_same_key_is_sent_once(fixture: SenderFixture) -> None:
    """Also by a later process."""
    first = await fixture.room_sender.send(message("hello"), ROOM, WORKER, "one" * 200)
    other = RoomSender(fixture.node.rooms, fixture.settings, fixture.observer, fixture.ghosts)
    assert await other.send(message("hello again"), ROOM, WORKER, "one" * 200) == first
    assert len(await fixture.said()) == 1
    await other.close()


async def test_a_kicked_agent_joins_again(fixture: SenderFixture) -> None:
    """Even if this process was not notified of the kick."""
    await fixture.room_sender.send(message("hello"), ROOM, WORKER, "one")
    await fixture.node.rooms.kick(WHERE, "@palaver:a.test", GHOST)
    assert isinstance(await fixture.room_sender.send(message("again"), ROOM, WORKER, "two"), Sent)
    assert len(await fixture.said()) == 2


async def test_a_banned_agent_cannot_send(fixture: SenderFixture) -> None:
    """The result has the reason, and the failure is recorded."""
    await fixture.room_sender.send(message("hello"), ROOM, WORKER, "one")
    await fixture.node.rooms.ban(WHERE, "@palaver:a.test", GHOST)
    outcome = await fixture.room_sender.send(message("again"), ROOM, WORKER, "two")
    assert isinstance(outcome, NotSent)
    assert not outcome.is_final
    assert [act.verdict for act in fixture.observer.records] == [Verdict.SENT, Verdict.FAILED]
    assert fixture.observer.records[1].detail == outcome.reason


async def test_only_local_agents_can_send(fixture: SenderFixture) -> None:
    """This node would sign the event."""
    stranger = AgentAddress("worker-1", "b.test")
    outcome = await fixture.room_sender.send(message("hello"), ROOM, stranger, "one")
    assert isinstance(outcome, NotSent)
    assert outcome.is_final


async def test_an_agent_without_a_valid_user_id_cannot_send(fixture: SenderFixture) -> None:
    """A retry would fail as well."""
    long = AgentAddress("ä" * 100, "a.test")
    outcome = await fixture.room_sender.send(message("hello"), ROOM, long, "one")
    assert isinstance(outcome, NotSent)
    assert outcome.is_final


async def test_an_event_that_is_too_large_is_not_sent(fixture: SenderFixture) -> None:
    """If it cannot be shortened."""
    outcome = await fixture.room_sender.send(message("x" * 100_000), ROOM, WORKER, "one")
    assert isinstance(outcome, NotSent)
    assert outcome.is_final
    assert await fixture.said() == []


async def test_an_unreachable_room_is_a_temporary_failure(fixture: SenderFixture) -> None:
    """A retry may succeed."""
    outcome = await fixture.room_sender.send(message("hello"), FederationRoom("default", "b.test"), WORKER, "one")
    assert isinstance(outcome, NotSent)
    assert not outcome.is_final


async def test_concurrent_events_of_a_user_join_once(fixture: SenderFixture) -> None:
    """And all events are sent."""
    event = StatusUpdate.model_validate(
        {"agent_id": "worker-1", "node_id": "a.test", "status": "idle", "timestamp": NOON}
    )
    names = [str(number) for number in range(20)]
    outcomes = await asyncio.gather(*(fixture.room_sender.send(event, ROOM, WORKER, name) for name in names))
    assert all(isinstance(outcome, Sent) for outcome in outcomes)
    page = await fixture.node.rooms.messages(WHERE, limit=100)
    joins = [one for one in page.events if one.type == "m.room.member" and one.state_key == GHOST]
    assert len([one for one in joins if one.content["membership"] == "join"]) == 1
    assert len(await fixture.said()) == 20
