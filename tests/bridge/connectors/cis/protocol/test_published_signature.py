"""Signatures as published nodes make and check them."""

from dataclasses import replace
from typing import Any

import pytest
from nacl.signing import SigningKey

from bridge.connectors.cis.protocol import published
from bridge.connectors.cis.protocol.envelope import Envelope
from bridge.connectors.cis.protocol.published import BADLY_SIGNED, NOT_SIGNED, SignatureCheck
from bridge.peers.peer import Peer, PeerProfile

KEY = SigningKey(bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
PEER = Peer("kitchen.local", PeerProfile.CIS_1_1, public_key=bytes(KEY.verify_key))
PLAIN = Envelope(
    event_id="$1",
    room_id="!agent-broadcast:kitchen.local",
    sender="@worker-1:kitchen.local",
    type="io.cis.agent.message",
    content={"z": [1.0, 0.25, 2**64 - 1], "ä": "ü\n\u2028\x7f"},
    origin_server_ts=1,
)


def test_the_signing_form() -> None:
    """Compact, sorted, non-ASCII as UTF-8, floats as `1.0`; `origin` defaults to the server."""
    common = (
        '"content":{"z":[1.0,0.25,18446744073709551615],"ä":"ü\\n\u2028\x7f"},"event_id":"$1",%s'
        '"origin_server_ts":1,"room_id":"!agent-broadcast:kitchen.local","sender":"@worker-1:kitchen.local"'
    )
    signing = "{" + common % '"origin":"kitchen.local",' + ',"type":"io.cis.agent.message"}'
    assert published.signing_form(PLAIN, "kitchen.local").decode() == signing
    with_origin = replace(PLAIN, origin="other.local")
    assert b'"origin":"other.local"' in published.signing_form(with_origin, "kitchen.local")
    checking = '{"content":{"z":[1.0,0.25,18446744073709551615],"ä":"ü\\n\u2028\x7f"},"event_id":"$1",'
    checking += '"event_type":"io.cis.agent.message",'
    assert published.checking_form(PLAIN).decode().startswith(checking)


@pytest.mark.parametrize(
    ("number", "written"),
    [(1.0, "1.0"), (-0.0, "-0.0"), (0.1, "0.1"), (1e15, "1000000000000000.0"), (1e-5, "0.00001"), (1e-7, "1e-7")],
)
def test_floats(number: float, written: str) -> None:
    """As the published node's library writes them, which differs from Python."""
    form = published.checking_form(replace(PLAIN, content={"n": number}))
    assert f'{{"n":{written}}}'.encode() in form


def test_the_signature_of_this_node() -> None:
    """It covers the signing form, and the hash is set."""
    made = published.sign(PLAIN, "kitchen.local", KEY)
    assert made.signatures is not None
    assert list(made.signatures["kitchen.local"]) == ["ed25519:0"]
    assert made.hashes == {"sha256": published.digest(PLAIN)}
    assert published.check_signature(made, PEER) is SignatureCheck.VALID
    assert published.signature_refusal(made, replace(PEER, require_signature=True)) is None


def test_both_forms_are_accepted() -> None:
    """Published nodes sign one form and check the other, and a corrected version may use either."""
    made = KEY.sign(published.checking_form(PLAIN)).signature.hex()
    for server in ("kitchen.local", "kitchen.local:7676"):
        event = replace(PLAIN, signatures={server: {"ed25519:9": made}})
        assert published.check_signature(event, PEER) is SignatureCheck.VALID


def test_a_changed_event_is_refused() -> None:
    """Whichever field was changed."""
    made = published.sign(PLAIN, "kitchen.local", KEY)
    changes: list[dict[str, Any]] = [
        {"event_id": "$2"}, {"room_id": "!x:y"}, {"sender": "@a:kitchen.local"}, {"type": "io.cis.agent.x"},
        {"content": {}}, {"origin_server_ts": 2}, {"origin": "other.local"},
    ]  # fmt: skip
    for change in changes:
        changed = replace(made, **change)
        assert published.signature_refusal(changed, PEER) == BADLY_SIGNED
        if change != {"origin": "other.local"}:
            assert published.digest(changed) != published.digest(made)


@pytest.mark.parametrize(
    "signatures",
    [
        {"kitchen.local": {"ed25519:0": "00" * 64}},
        {"kitchen.local": {"ed25519:0": "zz" * 64}},
        {"kitchen.local": {"ed25519:0": ""}},
        {"kitchen.local": {"ed25519:0": "ä" * 128}},
        {"kitchen.local": {f"ed25519:{number}": "00" * 64 for number in range(1000)}},
    ],
)
def test_an_invalid_signature_is_refused(signatures: dict[str, dict[str, str]]) -> None:
    """Even if no signature is required. Only a few of many signatures are checked."""
    event = replace(PLAIN, signatures=signatures)
    assert published.check_signature(event, PEER) is SignatureCheck.INVALID
    assert published.signature_refusal(event, PEER) == BADLY_SIGNED


def test_a_missing_signature() -> None:
    """Signatures of other servers are ignored. The peer's settings decide whether one is required."""
    held = published.sign(PLAIN, "kitchen.local", KEY).signatures or {}
    others = replace(PLAIN, signatures={"third.local": held["kitchen.local"]})
    for event in (PLAIN, others, replace(PLAIN, signatures={}), replace(PLAIN, signatures={"kitchen.local": {}})):
        assert published.check_signature(event, PEER) is SignatureCheck.ABSENT
        assert published.signature_refusal(event, PEER) is None
        assert published.signature_refusal(event, replace(PEER, require_signature=True)) == NOT_SIGNED


def test_without_a_key_no_signature_is_accepted() -> None:
    """If a signature is required, the event is refused."""
    made = published.sign(PLAIN, "kitchen.local", KEY)
    keyless = replace(PEER, public_key=None)
    assert published.check_signature(made, keyless) is SignatureCheck.ABSENT
    assert published.signature_refusal(made, keyless) is None
    assert published.signature_refusal(made, replace(keyless, require_signature=True)) == NOT_SIGNED
