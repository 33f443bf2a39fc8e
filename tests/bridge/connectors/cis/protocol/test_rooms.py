"""The rooms of agents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import rooms
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.refusals import Forbidden
from bridge.connectors.cis.protocol.rooms import BroadcastRoom, FederationRoom
from bridge.peers.peer import Peer
from federation.matrix.identifiers import is_room_alias, is_room_id
from tests.bridge.connectors.cis.event_builders import heartbeat, message, registered, request, response, unregistered

PEER = Peer("living.local", namespaces=frozenset({"default", "team-alpha"}))


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("!agent-federation-default:kitchen.local", FederationRoom("default", "kitchen.local")),
        ("!agent-federation-team-alpha:kitchen.local", FederationRoom("team-alpha", "kitchen.local")),
        ("!agent-broadcast:kitchen.local", BroadcastRoom("kitchen.local")),
        ("!agent-federation-default:host:7676", FederationRoom("default", "host:7676")),
        ("!agent-federation-agent-broadcast:a", FederationRoom("agent-broadcast", "a")),
    ],
)
def test_room_ids_of_the_specification(text: str, room: rooms.AgentRoom) -> None:
    """They are parsed and formatted; the alias has the same name."""
    assert rooms.parse_room_id(text) == room
    assert rooms.room_id(room) == text
    assert is_room_id(text)
    assert is_room_alias(f"#{room.name}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "!",
        "!agent-federation-default",
        "!agent-federation-:kitchen.local",
        "!agent-federation-default:",
        "!agent-federation-Default:kitchen.local",
        "!agent-federation--x:kitchen.local",
        "!agent-federation-a b:kitchen.local",
        f"!agent-federation-{'x' * 65}:kitchen.local",
        "!agent-federation:kitchen.local",
        "!agent-broadcast-x:kitchen.local",
        "!agent-broadcast",
        "!agent-broadcast:a@b",
        "!room:kitchen.local",
        "#agent-broadcast:kitchen.local",
        "agent-broadcast:kitchen.local",
    ],
)
def test_other_rooms_are_not_parsed(text: str) -> None:
    """They belong to other users."""
    assert rooms.parse_room_id(text) is None


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_room_id_is_parsed_or_not(first: str, second: str) -> None:
    """Parsing never raises, and no two ids are the same room."""
    for text in (first, f"!agent-federation-{first}:{second}", f"!agent-broadcast:{second}"):
        room = rooms.parse_room_id(text)
        assert room is None or rooms.room_id(room) == text


def test_the_characters_of_a_namespace() -> None:
    """They need no escaping in ids and aliases."""
    for namespace in ("default", "team-alpha", "0", "a.b_c-d", "x" * 64):
        assert rooms.wrong_namespace(namespace, "kitchen.local") is None
    for namespace in ("", "Team", "a:b", "a b", "-a", "ä", "x" * 65, "a\n"):
        assert "begins with" in (rooms.wrong_namespace(namespace, "kitchen.local") or "")
    assert "255 bytes" in (rooms.wrong_namespace("x" * 64, "n" * 200) or "")


@pytest.mark.parametrize("event", [heartbeat(), registered(), unregistered(), message(None, None)])
def test_broadcasts_are_sent_in_the_own_room(event: AnyEvent) -> None:
    """Every known node has joined it."""
    assert rooms.target_room(event, "living.local", "default") == BroadcastRoom("living.local")


def test_an_event_for_one_agent_goes_to_its_nodes_room() -> None:
    """To the federation room of the namespace."""
    assert rooms.target_room(request(), "living.local", "default") == FederationRoom("default", "kitchen.local")
    assert rooms.target_room(response(), "kitchen.local", "a") == FederationRoom("a", "living.local")
    assert rooms.target_room(message(), "kitchen.local", "a") == FederationRoom("a", "living.local")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("!agent-federation-default:kitchen.local", None),
        ("!agent-federation-team-alpha:kitchen.local", None),
        ("!agent-federation-default:living.local", None),
        ("!agent-federation-default:living.local:7676", None),
        ("!agent-broadcast:living.local", None),
        ("!agent-broadcast:kitchen.local", "A node may only broadcast in its own room."),
        ("!agent-broadcast:third.local", "A node may only broadcast in its own room."),
        ("!agent-federation-default:third.local", "The room belongs to another node."),
        ("!agent-federation-secret:kitchen.local", "The peer may not use this namespace."),
        ("!agent-federation-secret:living.local", "The peer may not use this namespace."),
        ("!other:living.local", "The room is not a room of agents."),
    ],
)
def test_which_rooms_a_peer_may_use(text: str, reason: str | None) -> None:
    """Its own rooms and those of this node, in the namespaces that it may use."""
    room = rooms.check_room(text, PEER, "kitchen.local")
    assert room == Forbidden(reason) if reason else room == rooms.parse_room_id(text)
