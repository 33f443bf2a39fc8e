"""The sender of an event."""

import pytest

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.examination import (
    HEADER,
    ORIGIN,
    SENDER,
    AgentSender,
    Claim,
    LostAgentNotice,
    check_claims,
    sender_of,
)
from bridge.connectors.cis.protocol.events import AnyEvent
from bridge.connectors.cis.protocol.refusals import Forbidden
from bridge.peers.peer import Peer, PeerProfile
from tests.bridge.connectors.cis.event_builders import (
    COORDINATOR,
    WORKER,
    heartbeat,
    message,
    registered,
    request,
    response,
    unregistered,
)

OWN = "living.local"
KITCHEN = Peer("kitchen.local")
PUBLISHED = Peer("kitchen.local", PeerProfile.CIS_1_1)


@pytest.mark.parametrize("event", [heartbeat(), registered(), unregistered(), response(), message()])
def test_the_sender_is_the_named_agent(event: AnyEvent) -> None:
    """If all claims name the peer."""
    for claims in ([], [Claim(SENDER, "kitchen.local"), Claim(ORIGIN, None), Claim(HEADER, "kitchen.local:7676")]):
        assert sender_of(event, claims, KITCHEN, OWN) == AgentSender(WORKER)


@pytest.mark.parametrize("what", [SENDER, ORIGIN, HEADER])
def test_every_claim_must_name_the_peer(what: str) -> None:
    """All claims are self-declared, and none may differ."""
    refused = sender_of(heartbeat(), [Claim(what, "third.local")], KITCHEN, OWN)
    assert refused == Forbidden(f"The {what} does not name the peer that sent this.")
    assert check_claims([Claim(what, "third.local")], KITCHEN) == refused
    assert check_claims([Claim(what, "")], KITCHEN) == refused
    assert check_claims([Claim(what, "kitchen.local")], KITCHEN) is None


@pytest.mark.parametrize(
    ("event", "field"),
    [
        (heartbeat(node_id="third.local"), "node_id"),
        (heartbeat(node_id=OWN), "node_id"),
        (heartbeat(node_id="KITCHEN.local"), "node_id"),
        (heartbeat(node_id="kitchen.local:7676"), "node_id"),
        (unregistered(node_id="third.local"), "node_id"),
        (request(from_agent=AgentAddress("a", "third.local")), "from_agent"),
        (request(from_agent=AgentAddress("a", OWN)), "from_agent"),
    ],
)
def test_only_a_node_sends_for_its_agents(event: AnyEvent, field: str) -> None:
    """In an address, a node has exactly one name: with a port or in capitals it would be another address."""
    refused = sender_of(event, [], KITCHEN, OWN)
    assert refused == Forbidden(f"The {field} does not name the peer that sent this.")


def test_a_published_proxy() -> None:
    """It puts the target's address into `sender`, `from_agent` and `to_agent`: taken as `proxy@{peer}`, in a
    request of a published peer alone."""
    target = AgentAddress("worker-7", OWN)
    asked = request(from_agent=target, to_agent=target)
    proxy = AgentSender(AgentAddress("proxy", "kitchen.local"), is_proxy=True)
    assert sender_of(asked, [Claim(SENDER, OWN)], PUBLISHED, OWN) == proxy
    assert sender_of(asked, [Claim(SENDER, "kitchen.local")], PUBLISHED, OWN) == proxy
    for claim in (Claim(SENDER, "third.local"), Claim(ORIGIN, OWN), Claim(HEADER, OWN)):
        assert isinstance(sender_of(asked, [claim], PUBLISHED, OWN), Forbidden)
    assert isinstance(sender_of(asked, [], KITCHEN, OWN), Forbidden)
    other = message(None, COORDINATOR).model_copy(update={"from_agent": COORDINATOR})
    assert isinstance(sender_of(other, [], PUBLISHED, OWN), Forbidden)
    different = request(from_agent=AgentAddress("worker-8", OWN), to_agent=target)
    assert isinstance(sender_of(different, [], PUBLISHED, OWN), Forbidden)


def test_a_peer_may_report_a_lost_local_agent() -> None:
    """`unregistered` goes to the owning node when its agent times out. No other event about a local agent is
    allowed."""
    gone = unregistered("worker-7", OWN, "timeout")
    assert sender_of(gone, [Claim(SENDER, "kitchen.local")], KITCHEN, OWN) == LostAgentNotice(
        AgentAddress("worker-7", OWN)
    )
    assert isinstance(sender_of(gone, [Claim(SENDER, OWN)], KITCHEN, OWN), Forbidden)
    assert isinstance(sender_of(gone, [], KITCHEN, "third.local"), Forbidden)
