"""CIS agent federation: the events that a node must read, and those that it must refuse and how. See
`cis/README.md`."""

import copy
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.examination import AgentSender, UnknownEvent, ValidEvent, examine_envelope
from bridge.connectors.cis.protocol import content, envelope, published
from bridge.connectors.cis.protocol import error_codes as answers
from bridge.connectors.cis.protocol.envelope import Envelope, MalformedEvent
from bridge.connectors.cis.protocol.error_codes import EventResponse
from bridge.connectors.cis.protocol.events import EVENTS
from bridge.connectors.cis.protocol.published import SignatureCheck
from bridge.peers.peer import Peer, PeerProfile
from federation.matrix.canonical_json import encode

DATA = Path(__file__).parent / "cis"
SHAPES = sorted((*DATA.glob("*.flat.json"), *DATA.glob("*.nested.json")))
SIGNED = json.loads((DATA / "signed-event.json").read_text("utf-8"))
TABLE = json.loads((DATA / "refusals.json").read_text("utf-8"))
NODE = "kitchen.local"
PEERS: dict[str, Peer | None] = {
    name: None
    if said is None
    else Peer(
        NODE,
        PeerProfile(said["profile"]),
        trusted=said.get("trusted", True),
        public_key=bytes.fromhex(said["public_key"]) if "public_key" in said else None,
        require_signature=said.get("require_signature", False),
    )
    for name, said in TABLE["peers"].items()
}


# -- contents --


def test_the_samples_cover_each_type_and_shape() -> None:
    """Seven types, two shapes."""
    assert {path.name for path in SHAPES} == {
        f"{type_.removeprefix('io.cis.agent.')}.{shape}.json" for type_ in EVENTS for shape in ("flat", "nested")
    }


@pytest.mark.parametrize("path", SHAPES, ids=lambda path: path.name)
def test_a_content_is_read_as_its_event(path: Path) -> None:
    """Field by field; the content written for either profile is read as the same event."""
    given = json.loads(path.read_text("utf-8"))
    event = content.read(given["type"], given["content"])
    assert isinstance(event, EVENTS[given["type"]])
    assert event.model_dump() == given["parsed"]
    assert isinstance(event.timestamp, datetime)
    for name in ("from_agent", "to_agent"):
        if given["parsed"].get(name) is not None:
            assert isinstance(getattr(event, name), AgentAddress)
    flat = content.render(event, PeerProfile.MATRIX)
    assert content.read(given["type"], json.loads(encode(flat))) == event
    nested = content.render(event, PeerProfile.CIS_1_1)
    assert nested == {"event_type": given["type"], "payload": given["parsed"]}
    assert content.read(given["type"], nested) == event


# -- signatures --


def test_the_signed_event() -> None:
    """Both published forms and the hash, byte for byte."""
    event = envelope.read(json.dumps(SIGNED["event"]).encode())
    assert isinstance(event, Envelope)
    key = SigningKey(bytes.fromhex(SIGNED["private_key"]))
    assert bytes(key.verify_key).hex() == SIGNED["public_key"]
    form = published.signing_form(event, SIGNED["server"])
    assert form.decode() == SIGNED["signing_form"]
    assert len(form) == 390
    assert key.sign(form).signature.hex() == SIGNED["signing_signature"]
    assert key.sign(published.checking_form(event)).signature.hex() == SIGNED["checking_signature"]
    assert published.digest(event) == SIGNED["sha256"]
    signed = published.sign(event, SIGNED["server"], key)
    assert signed.signatures == {SIGNED["server"]: {"ed25519:0": SIGNED["signing_signature"]}}
    assert signed.hashes == {"sha256": SIGNED["sha256"]}


@pytest.mark.parametrize("form", ["signing_signature", "checking_signature"])
def test_both_signatures_are_accepted(form: str) -> None:
    """Whichever form was signed."""
    signatures = {SIGNED["server"]: {"ed25519:0": SIGNED[form]}}
    event = envelope.read(json.dumps({**SIGNED["event"], "signatures": signatures}).encode())
    peer = PEERS["signing"]
    assert isinstance(event, Envelope)
    assert peer is not None
    assert published.check_signature(event, peer) is SignatureCheck.VALID
    assert isinstance(examine_envelope(event, peer, TABLE["own_node"]), ValidEvent)


# -- refusals --


def body_of(refusal: dict[str, Any]) -> bytes:
    if "size" in refusal:
        return json.dumps({**TABLE["event"], "unsigned": "x" * refusal["size"]}).encode()
    if "body" in refusal:
        return str(refusal["body"]).encode()
    event = copy.deepcopy(TABLE["event"])
    for path, value in refusal.get("set", {}).items():
        place, name = reached(event, path)
        place[name] = value
    if "without" in refusal:
        place, name = reached(event, refusal["without"])
        del place[name]
    return json.dumps(event).encode()


def reached(event: dict[str, Any], path: str) -> tuple[dict[str, Any], str]:
    *above, name = path.split(".")
    for key in above:
        event = event[key]
    return event, name


def received(body: bytes, peer: Peer | None, header: str | None = None) -> EventResponse | ValidEvent:
    """Examine an event as the endpoint does, without storing anything."""
    event = envelope.read(body)
    if isinstance(event, MalformedEvent):
        return answers.refused_response(event.refusal, event.event_id)
    examined = examine_envelope(event, peer, TABLE["own_node"], header=header)
    assert not isinstance(examined, UnknownEvent)
    return examined if isinstance(examined, ValidEvent) else answers.refused_response(examined, event.event_id)


def test_the_unchanged_event_is_valid() -> None:
    """So each refusal in the table has the reason that is stated beside it."""
    taken = received(body_of({}), PEERS["published"], NODE)
    assert isinstance(taken, ValidEvent)
    assert taken.sender == AgentSender(AgentAddress("worker-1", NODE))


@pytest.mark.parametrize("refusal", TABLE["refusals"], ids=lambda refusal: refusal["why"])
def test_a_refusal_has_its_status_and_text(refusal: dict[str, Any]) -> None:
    """In the shape of published nodes: `accepted`, `error`, and the event id if the event has one."""
    body = body_of(refusal)
    answer = received(body, PEERS[refusal.get("peer", "published")], refusal.get("header"))
    assert isinstance(answer, EventResponse)
    assert answer.status == refusal["status"]
    has_id = "event_id" not in refusal.get("without", "") and not {"body", "size"} & set(refusal)
    assert answer.body == {
        "accepted": False,
        "error": refusal["error"],
        "event_id": TABLE["event"]["event_id"] if has_id else "",
    }
