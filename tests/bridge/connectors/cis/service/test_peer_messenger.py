"""The choice between rooms and HTTP for an event to a node."""

from dataclasses import replace

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, PeerMessenger, RoomSender, Sent
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNodes, RecordingObserver
from tests.bridge.connectors.cis.event_builders import message
from tests.support.ghosts import ghosts_of

BOTH = ("default", "alpha")


class RecordingPublished:
    def __init__(self) -> None:
        self.sent: list[OutgoingEvent] = []

    async def send(self, access: PeerAccess, outgoing: OutgoingEvent) -> Sent | NotSent:
        self.sent.append(outgoing)
        return Sent("$1")


async def test_the_namespace_of_an_agent(nodes: CisNodes) -> None:
    """The first common one in which it is registered; the first common one if it is not registered; none
    without a common one."""
    peers = {
        "a.test": PeerAccess(Peer("a.test", namespaces=frozenset(BOTH))),
        "c.test": PeerAccess(Peer("c.test", namespaces=frozenset({"beta"}))),
        "old": PeerAccess(Peer("old", PeerProfile.CIS_1_1, namespaces=frozenset(BOTH))),
    }
    there = {"b.test": PeerAccess(Peer("b.test", namespaces=frozenset(BOTH)))}
    living, kitchen = await nodes.start_with(
        replace(QUICK, node_id="a.test", peers=there, namespaces=BOTH),
        replace(QUICK, node_id="b.test", peers=peers, namespaces=BOTH),
    )
    await living.local_agents.register("open")
    await living.local_agents.register("secret", namespaces=("alpha",))
    for name in ("open", "secret"):
        await kitchen.wait_online(f"{name}@a.test")
    room_sender = RoomSender(kitchen.node.rooms, kitchen.settings, RecordingObserver(), ghosts_of(kitchen.node))
    messenger = PeerMessenger(kitchen.node.rooms, kitchen.settings, room_sender, RecordingPublished())
    for node_id, agent_id, expected in [
        ("a.test", "open", "default"),
        ("a.test", "secret", "alpha"),
        ("a.test", "unheard-of", "default"),
        ("c.test", "any", None),
        ("old", "any", "default"),
    ]:
        address = AgentAddress(agent_id, node_id)
        assert await messenger.namespace_of(peers[node_id].peer, address) == expected
    await room_sender.close()


async def test_a_node_without_rooms_gets_single_events(nodes: CisNodes) -> None:
    """With all fields of the outgoing event."""
    [node] = await nodes.start("b.test")
    old = PeerAccess(Peer("old", PeerProfile.CIS_1_1))
    settings = replace(QUICK, node_id="b.test", peers={"old": old})
    published = RecordingPublished()
    room_sender = RoomSender(node.rooms, settings, RecordingObserver(), ghosts_of(node))
    messenger = PeerMessenger(node.rooms, settings, room_sender, published)
    outgoing = OutgoingEvent(message("x"), "default", AgentAddress("w", "b.test"), "name", 5)
    assert await messenger.send(old, outgoing) == Sent("$1")
    assert published.sent == [outgoing]
