"""Events of this node, encoded for published nodes."""

import orjson
from nacl.signing import SigningKey

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.envelope import Envelope, read
from bridge.connectors.cis.protocol.published import SignatureCheck, check_signature, signed_body
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerProfile
from tests.bridge.connectors.cis.event_builders import COORDINATOR, WORKER, registered, request

KEY = SigningKey(b"k" * 32)


def test_a_broadcast() -> None:
    """It is nested, signed as published nodes sign, and names the room in which it would be sent."""
    settings = CisSettings("kitchen.local")
    body = signed_body(registered("kimi"), "$1", WORKER, "default", settings, KEY)
    event = read(body)
    assert isinstance(event, Envelope)
    assert (event.room_id, event.sender, event.origin) == (
        "!agent-broadcast:kitchen.local",
        "@worker-1:kitchen.local",
        "kitchen.local",
    )
    assert event.origin_server_ts == 1_770_552_000_000
    assert content.read(event.type, dict(event.content)) == registered("kimi")
    assert orjson.loads(body)["content"]["payload"]["runtime_type"] == "kimi"
    us = Peer("kitchen.local", PeerProfile.CIS_1_1, public_key=bytes(KEY.verify_key))
    assert check_signature(event, us) is SignatureCheck.VALID


def test_an_event_for_one_agent_names_the_room_of_its_node() -> None:
    """In the common namespace. An agent whose id fits no Matrix user is replaced by its node as the
    sender."""
    settings = CisSettings("living.local")
    event = read(signed_body(request(), "$1", COORDINATOR, "alpha", settings, KEY))
    assert isinstance(event, Envelope)
    assert event.room_id == "!agent-federation-alpha:kitchen.local"
    long = AgentAddress("ä" * 60, "living.local")
    event = read(signed_body(request(), "$1", long, "alpha", settings, KEY))
    assert isinstance(event, Envelope)
    assert event.sender == "@palaver:living.local"
