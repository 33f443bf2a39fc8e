"""Required signatures and their verification: step 2 of the checks on receipt of a PDU."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.events import Pdu, Template, build, parse, redact_pdu
from federation.events.builder import sign_event, unsigned_event
from federation.events.event_signatures import add_signature, required_signatures, verify_event
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import BadSignature, NeedKeys, NotSigned, Verified
from tests.support.rooms import signer, verify_keys

A, B = "a.example", "b.example"
NOW = 10**12


def member(membership: str, version: str = "12", server: str = A, **content: Any) -> Pdu:
    template = Template(
        "m.room.member",
        f"@alice:{server}",
        {"membership": membership, **content},
        NOW,
        room_id="!r:a.example",
        state_key="@alice:a.example",
    )
    pdu = build(template, ROOM_VERSIONS[version], signer(server))
    assert isinstance(pdu, Pdu)
    return pdu


def servers(pdu: Pdu, version: str) -> list[str]:
    return [required.server for required in required_signatures(pdu, ROOM_VERSIONS[version])]


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_required_signatures(version: str) -> None:
    """The sender's server; from room version 8 on the authoriser's server; none for a third-party invite."""
    restricted = ROOM_VERSIONS[version].restricted_joins
    assert servers(member("join", version), version) == [A]
    authorised = member("join", version, join_authorised_via_users_server=f"@bob:{B}")
    assert servers(authorised, version) == ([A, B] if restricted else [A])
    assert servers(member("leave", version, join_authorised_via_users_server=f"@bob:{B}"), version) == [A]
    assert servers(member("invite", version, third_party_invite={}), version) == []
    assert servers(member("invite", version, third_party_invite=None), version) == []
    assert servers(member("join", version, third_party_invite={}), version) == [A]
    assert servers(member("invite", version), version) == [A]


@pytest.mark.parametrize("authoriser", [None, 3, "bob", [], {}])
def test_an_authoriser_without_server(authoriser: Any) -> None:
    """No server can have signed for it, so the event is refused."""
    pdu = member("join", join_authorised_via_users_server=authoriser)
    assert servers(pdu, "12") == [A, ""]
    assert verify_event(pdu, ROOM_VERSIONS["12"], verify_keys(A), NOW) == NotSigned("")


def test_verifying_an_event() -> None:
    """Every required signature is verified; all missing keys are reported at once."""
    version = ROOM_VERSIONS["12"]
    pdu = member("join", join_authorised_via_users_server=f"@bob:{B}")
    assert verify_event(pdu, version, verify_keys(A, B), NOW) == NotSigned(B)

    cosigned = parse(add_signature(pdu.event, version, B, signer(B).key_id, signer(B).key), version)
    assert isinstance(cosigned, Pdu)
    assert cosigned.event_id == pdu.event_id
    assert verify_event(cosigned, version, verify_keys(A, B), NOW) == Verified()
    assert verify_event(cosigned, version, {}, NOW) == NeedKeys({A: ("ed25519:test",), B: ("ed25519:test",)})
    assert verify_event(cosigned, version, verify_keys(A), NOW) == NeedKeys({B: ("ed25519:test",)})

    forged = parse({**cosigned.event, "depth": 7}, version)
    assert isinstance(forged, Pdu)
    assert verify_event(forged, version, verify_keys(A, B), NOW) == BadSignature(A, "ed25519:test")


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_validity_of_the_key(version: str) -> None:
    """From room version 5 on the key must have been valid at `origin_server_ts`; before, at any time."""
    pdu = member("join", version)
    expired = verify_keys(A, valid_until_ts=NOW - 1)
    result = verify_event(pdu, ROOM_VERSIONS[version], expired, NOW)
    assert result == (NeedKeys({A: ("ed25519:test",)}) if ROOM_VERSIONS[version].enforces_key_validity else Verified())
    assert verify_event(pdu, ROOM_VERSIONS[version], verify_keys(A, valid_until_ts=NOW), NOW) == Verified()


@given(
    st.sampled_from(list(ROOM_VERSIONS.values())),
    st.sampled_from(["m.room.member", "m.room.create", "m.room.power_levels", "m.room.message", "m.room.redaction"]),
    st.dictionaries(
        st.sampled_from(["membership", "users", "creator", "redacts", "body", "third_party_invite", "ban"]),
        st.text(max_size=5) | st.integers(0, 5) | st.just({"signed": {"a": 1}, "b": 2}),
    ),
)
def test_a_signature_survives_redaction(version: Any, type_: str, content: dict[str, Any]) -> None:
    """Redaction removes nothing that was signed, in any version and for any type; other changes are
    detected."""
    event = unsigned_event(Template(type_, f"@alice:{B}", content, NOW, "!r:a.example", state_key="k"))
    pdu = sign_event(event, version, signer(B))
    assert isinstance(pdu, Pdu)
    third_party = type_ == "m.room.member" and content.get("membership") == "invite"
    for copy in (pdu, redact_pdu(pdu, version)):
        if not (third_party and "third_party_invite" in copy.content):
            assert verify_event(copy, version, verify_keys(B), NOW) == Verified()
