"""The examination of a peer's event."""

from dataclasses import replace
from typing import Any

import pytest

from bridge.connectors.cis.examination import (
    UNKNOWN_PEER,
    UNTRUSTED_PEER,
    AgentSender,
    ExaminationResult,
    UnknownEvent,
    ValidEvent,
    examine_envelope,
    examine_pdu,
)
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.published import NOT_SIGNED
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import FederationRoom
from bridge.peers.peer import Peer, PeerProfile
from tests.bridge.connectors.cis.event_builders import WORKER, heartbeat

OWN = "living.local"
PEER = Peer("kitchen.local", PeerProfile.CIS_1_1)
BEAT = heartbeat()
ROOM = FederationRoom("default", "kitchen.local")
ENVELOPE = Envelope(
    event_id="$1",
    room_id="!agent-federation-default:kitchen.local",
    sender="@worker-1:kitchen.local",
    type=BEAT.TYPE,
    content=content.render(BEAT, PeerProfile.CIS_1_1),
    origin_server_ts=1_771_000_000_000,
)


def examined(peer: Peer | None = PEER, header: str | None = None, **changes: Any) -> ExaminationResult:
    return examine_envelope(replace(ENVELOPE, **changes), peer, OWN, header=header)


def test_a_valid_event() -> None:
    """Without `origin`, as published nodes send it, or with `origin` and the header."""
    assert examined() == ValidEvent(BEAT, AgentSender(WORKER), ROOM)
    assert examined(origin="kitchen.local", header="kitchen.local") == ValidEvent(BEAT, AgentSender(WORKER), ROOM)


def test_an_unknown_peer_is_refused_first() -> None:
    """Before the content is examined."""
    for changes in ({}, {"content": {}}, {"room_id": "!x:y"}):
        assert examined(None, **changes) == UNKNOWN_PEER
        assert examined(replace(PEER, trusted=False), **changes) == UNTRUSTED_PEER


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"room_id": "!agent-broadcast:living.local"}, "A node may only broadcast in its own room."),
        ({"room_id": "!agent-federation-secret:kitchen.local"}, "The peer may not use this namespace."),
        ({"sender": "@worker-1:third.local"}, "The sender does not name the peer that sent this."),
        ({"origin": "third.local"}, "The origin does not name the peer that sent this."),
        ({"header": "third.local"}, "The x-origin-server header does not name the peer that sent this."),
        (
            {"content": content.render(heartbeat(node_id="third.local"), PeerProfile.CIS_1_1)},
            "The node_id does not name the peer that sent this.",
        ),
    ],
)
def test_forbidden_events(changes: dict[str, Any], reason: str) -> None:
    """Each is refused with its reason."""
    assert examined(**changes) == Forbidden(reason)


def test_a_required_signature() -> None:
    """It is checked before anything else."""
    assert examined(replace(PEER, public_key=bytes(32), require_signature=True)) == NOT_SIGNED


def test_an_unknown_type() -> None:
    """It is stored and counted, and its claims are still checked."""
    assert examined(type="io.cis.agent.sang", content={"a": 1}) == UnknownEvent("io.cis.agent.sang", ROOM)
    refused = examined(type="io.cis.agent.sang", content={"a": 1}, origin="third.local")
    assert refused == Forbidden("The origin does not name the peer that sent this.")
    assert examined(type="m.room.message") == InvalidPayload("type", "is not the type of an agent event")


def test_a_wrong_payload() -> None:
    """The refusal names the field."""
    assert examined(content={}) == InvalidPayload("agent_id", "is missing")


def test_an_event_of_a_room() -> None:
    """A PDU of a homeserver follows the same rules, in both shapes."""
    for profile in PeerProfile:
        said = content.render(BEAT, profile)
        for room_id, sender, expected in (
            (ENVELOPE.room_id, ENVELOPE.sender, ValidEvent(BEAT, AgentSender(WORKER), ROOM)),
            (ENVELOPE.room_id, "@worker-1:third.local", Forbidden("The sender does not name the peer that sent this.")),
            ("!agent-broadcast:living.local", ENVELOPE.sender, Forbidden("A node may only broadcast in its own room.")),
        ):
            assert examine_pdu(BEAT.TYPE, said, room_id, sender, Peer("kitchen.local"), OWN) == expected
        assert examine_pdu(BEAT.TYPE, said, ENVELOPE.room_id, ENVELOPE.sender, None, OWN) == UNKNOWN_PEER
