"""Creating and updating the rooms of a node."""

from dataclasses import replace

from bridge.connectors.cis.service.own_rooms import OwnRooms
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess
from federation.local_users.local_users import LocalUsers
from federation.rooms.creation import CreateRoomRequest
from tests.bridge.connectors.cis.cis_nodes import CisNodes, RecordingObserver

SETTINGS = CisSettings("a.test", namespaces=("default", "alpha"))
ROOMS = ("agent-broadcast", "agent-federation-default", "agent-federation-alpha")


async def make(rooms: LocalUsers, settings: CisSettings = SETTINGS) -> RecordingObserver:
    observer = RecordingObserver()
    await OwnRooms(rooms, settings, observer).create_all()
    return observer


async def test_the_rooms_match_the_specification(nodes: CisNodes) -> None:
    """Ids, aliases, room version 11, owner and join rules."""
    [node] = await nodes.start("a.test")
    assert (await make(node.rooms)).problems == []
    for name in ROOMS:
        room_id = f"!{name}:a.test"
        found = await node.rooms.resolve_alias(f"#{name}:a.test")
        assert found is not None
        assert found[0] == room_id
        creation = await node.rooms.state_event(room_id, "m.room.create")
        rule = await node.rooms.state_event(room_id, "m.room.join_rules")
        assert creation is not None
        assert rule is not None
        assert (creation.sender, creation.content["room_version"]) == ("@palaver:a.test", "11")
        assert rule.content == {"join_rule": "public"}
        assert await node.rooms.membership(room_id, "@palaver:a.test") == "join"


async def test_creating_again_changes_nothing(nodes: CisNodes) -> None:
    """As at every start."""
    [node] = await nodes.start("a.test")
    await make(node.rooms)
    before = await node.graph.stream.last_position()
    assert (await make(node.rooms)).problems == []
    assert await node.graph.stream.last_position() == before


async def test_the_rooms_follow_the_configuration(nodes: CisNodes) -> None:
    """New namespaces, the join rule, and the servers excluded by the ACL."""
    [node] = await nodes.start("a.test")
    await make(node.rooms, replace(SETTINGS, namespaces=("default",)))
    bad = {"bad.test": PeerAccess(Peer("bad.test", trusted=False))}
    await make(node.rooms, replace(SETTINGS, join_rule="invite", peers=bad))
    for name in ROOMS:
        rule = await node.rooms.state_event(f"!{name}:a.test", "m.room.join_rules")
        assert rule is not None
        assert rule.content == {"join_rule": "invite"}
        acl = await node.rooms.server_acl(f"!{name}:a.test")
        assert acl is not None
        assert (acl["allow"], acl["deny"]) == (["*"], ["bad.test"])
    await make(node.rooms)
    acl = await node.rooms.server_acl("!agent-broadcast:a.test")
    assert acl is not None
    assert acl["deny"] == []


async def test_a_room_created_without_federation_stays_closed(nodes: CisNodes) -> None:
    """The operator gets a report. A federated room can be closed by its server ACL."""
    [node] = await nodes.start("a.test")
    await make(node.rooms, replace(SETTINGS, namespaces=("default",), federate=False))
    observer = await make(node.rooms)
    closed = [sentence for sentence, _ in observer.problems]
    assert len(closed) == 2
    assert all("federate = false" in sentence for sentence in closed)
    await make(node.rooms, replace(SETTINGS, federate=False))
    acl = await node.rooms.server_acl("!agent-federation-alpha:a.test")
    assert acl is not None
    assert acl["allow"] == ["a.test"]


async def test_a_room_of_another_creator_is_reported(nodes: CisNodes) -> None:
    """The other rooms are still created."""
    [node] = await nodes.start("a.test")
    alice = node.user("alice")
    await node.rooms.create_room(CreateRoomRequest(creator=alice, version="11", room_id="agent-federation-default"))
    observer = await make(node.rooms)
    [(sentence, error)] = observer.problems
    assert "!agent-federation-default:a.test" in sentence
    assert error is not None
    assert await node.rooms.membership("!agent-federation-alpha:a.test", "@palaver:a.test") == "join"


async def test_the_acl_follows_a_changed_peer(nodes: CisNodes) -> None:
    """An untrusted peer is excluded, and admitted when it is trusted again."""
    [node] = await nodes.start("a.test")
    peer = Peer("b.test", namespaces=frozenset(SETTINGS.namespaces))
    peers = {"b.test": PeerAccess(peer)}
    rooms = OwnRooms(node.rooms, replace(SETTINGS, peers=peers), RecordingObserver())
    await rooms.create_all()
    await rooms.peer_changed("b.test")
    assert await node.rooms.server_acl("!agent-broadcast:a.test") is None
    for trusted, deny in ((False, ["b.test"]), (True, [])):
        peers["b.test"] = PeerAccess(replace(peer, trusted=trusted))
        await rooms.peer_changed("b.test")
        for name in ROOMS:
            acl = await node.rooms.server_acl(f"!{name}:a.test")
            assert acl is not None
            assert acl["deny"] == deny


async def test_a_former_peer_is_kicked_from_invite_only_rooms(nodes: CisNodes) -> None:
    """If this node still federates with its server; otherwise the kick would not reach it."""
    node, *_ = await nodes.start("a.test", "b.test", "c.test")
    room = "!agent-broadcast:a.test"
    settings = replace(SETTINGS, join_rule="invite")
    await make(node.rooms, settings)
    invited = {"@alice:b.test", "@alice:c.test", "@alice:a.test"}
    for user in invited:
        await node.rooms.invite(room, "@palaver:a.test", user)
    for admits, left in ((False, invited), (True, invited - {"@alice:b.test"})):
        rooms = OwnRooms(node.rooms, settings, RecordingObserver(), admits=lambda _, is_=admits: is_)
        await rooms.peer_changed("b.test")
        assert {one.user_id for one in await node.rooms.members(room, ("invite",))} == left
