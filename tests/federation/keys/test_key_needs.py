"""Which keys have to be fetched."""

from typing import Any

import pytest

from federation.events import Pdu, Template, build
from federation.events.event_signatures import add_signature
from federation.events.pdu import make_pdu
from federation.keys.key_documents import DIRECT, ServerKey
from federation.keys.server_keys import (
    ANY_TIME,
    MIN_DOCUMENT_VALIDITY_MS,
    KeyNeed,
    required_keys,
    satisfies,
    unmet_needs,
)
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import signer

NOW = 10**12
KEY_ID = "ed25519:1"


def event(version: str, **content: Any) -> Pdu:
    template = Template(
        "m.room.member", "@a:a.test", {"membership": "join", **content}, NOW, room_id="!r:a.test", state_key="@a:a.test"
    )
    pdu = build(template, ROOM_VERSIONS[version], signer("a.test"))
    assert isinstance(pdu, Pdu)
    return pdu


def signed_by(pdu: Pdu, version: str, server: str, key_id: str) -> Pdu:
    key = signer(server).key
    again = add_signature(pdu.event, ROOM_VERSIONS[version], server, key_id, key)
    return make_pdu(again, b"", pdu.event_id, ROOM_VERSIONS[version])


@pytest.mark.parametrize(("version", "valid_at"), [("4", ANY_TIME), ("5", NOW), ("12", NOW)])
def test_an_event_needs_the_keys_of_its_signatures(version: str, valid_at: int) -> None:
    """From room version 5 on, keys that were valid at its `origin_server_ts`."""
    pdu = event(version)
    [key_id] = pdu.signatures["a.test"]
    assert required_keys(pdu, ROOM_VERSIONS[version]) == {KeyNeed("a.test", key_id, valid_at)}


def test_only_required_signatures_count() -> None:
    """Otherwise another server's name in an event would cause requests to that server."""
    pdu = signed_by(event("12", join_authorised_via_users_server="@b:b.test"), "12", "c.test", "ed25519:c")
    assert {need.server for need in required_keys(pdu, ROOM_VERSIONS["12"])} == {"a.test"}
    pdu = signed_by(pdu, "12", "b.test", "ed25519:b")
    pdu = signed_by(pdu, "12", "b.test", "curve25519:b")
    needs = required_keys(pdu, ROOM_VERSIONS["12"])
    assert KeyNeed("b.test", "ed25519:b", NOW) in needs
    assert {need.server for need in needs} == {"a.test", "b.test"}
    assert len(needs) == 2


def key(until: int, expired: int | None = None) -> ServerKey:
    return ServerKey("a.test", KEY_ID, b"k" * 32, until, expired, NOW, DIRECT)


def test_when_a_key_satisfies_a_need() -> None:
    """If it is valid long enough, or if it has expired and cannot change any more."""
    need = KeyNeed("a.test", KEY_ID, NOW)
    assert not satisfies(None, need, NOW)
    assert satisfies(key(NOW), need, NOW)
    assert not satisfies(key(NOW - 1), need, NOW)
    assert satisfies(key(NOW - 1, expired=NOW - 2), need, NOW)
    assert satisfies(key(0), KeyNeed("a.test", KEY_ID), NOW)


def test_an_event_from_the_future_is_no_reason_to_fetch() -> None:
    """No document is valid for that long, so every event would cause a fetch."""
    far = KeyNeed("a.test", KEY_ID, NOW + 10**12)
    assert satisfies(key(NOW + MIN_DOCUMENT_VALIDITY_MS), far, NOW)
    assert not satisfies(key(NOW + MIN_DOCUMENT_VALIDITY_MS - 1), far, NOW)


def test_unmet_needs() -> None:
    """By server, so that each is requested once."""
    known = {"a.test": {KEY_ID: key(NOW)}}
    met, other = KeyNeed("a.test", KEY_ID, NOW), KeyNeed("a.test", "ed25519:2", NOW)
    elsewhere = KeyNeed("b.test", KEY_ID, NOW)
    assert unmet_needs([met, other, elsewhere], known, NOW) == {"a.test": (other,), "b.test": (elsewhere,)}
    assert unmet_needs([met], known, NOW) == {}
