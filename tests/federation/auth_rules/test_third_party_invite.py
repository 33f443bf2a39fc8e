"""Rules 5.4.1 and 7: third-party invites."""

from typing import Any

import pytest
from nacl.signing import SigningKey

from federation.auth_rules import Allowed, Refused, Verdict
from federation.auth_rules.third_party_invite import MAX_SIGNATURES_TRIED
from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import encode_base64, sign
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

IDENTITY = SigningKey(bytes([7]) * 32)
STRANGER = SigningKey(bytes([8]) * 32)


def public(key: SigningKey) -> str:
    return encode_base64(bytes(key.verify_key))


def invited_room(version: str, content: dict[str, Any] | None = None, sender: str = ALICE) -> Room:
    """A room with a third-party invite whose token is `t`."""
    room = public_room(version, CAROL)
    shown = {"display_name": "b…@…", "public_key": public(IDENTITY)} if content is None else content
    room.send("m.room.third_party_invite", sender, shown, "t")
    return room


def signed(key: SigningKey = IDENTITY, mxid: object = BOB, token: object = "t") -> dict[str, Any]:
    return sign({"mxid": mxid, "token": token}, "id.example", "ed25519:0", key)


def invite(room: Room, third_party_invite: object, sender: str = ALICE, target: str = BOB) -> Verdict:
    return room.verdict(invitation(room, third_party_invite, sender, target))


def invitation(room: Room, third_party_invite: object, sender: str = ALICE, target: str = BOB) -> Pdu:
    content = {"membership": "invite", "third_party_invite": third_party_invite}
    return room.propose("m.room.member", sender, content, target)


@refused_by("third_party.banned")
def a_banned_user(version: str) -> Verdict:
    room = invited_room(version)
    room.member(ALICE, BOB, "ban")
    return invite(room, {"signed": signed()})


@refused_by("third_party.signed")
def without_signed(version: str) -> Verdict:
    return invite(invited_room(version), {"display_name": "bob"})


@refused_by("third_party.signed")
def an_invite_that_is_not_an_object(version: str) -> Verdict:
    return invite(invited_room(version), None)


@refused_by("third_party.signed")
def signed_that_is_not_an_object(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": "by me"})


@refused_by("third_party.properties")
def without_mxid(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": {"token": "t"}})


@refused_by("third_party.properties")
def without_token(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": {"mxid": BOB}})


@refused_by("third_party.properties")
def a_token_that_is_not_a_string(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": signed(token=["t"])})


@refused_by("third_party.mxid")
def signed_for_another_user(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": signed(mxid="@eve:b.example")})


@refused_by("third_party.token")
def an_unknown_token(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": signed(token="other")})


@refused_by("third_party.sender")
def sent_by_another_user(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": signed()}, sender=CAROL)


@refused_by("third_party.otherwise")
def signed_with_another_key(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": signed(STRANGER)})


@refused_by("third_party.otherwise")
def without_signatures(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": {"mxid": BOB, "token": "t"}})


@refused_by("third_party.otherwise")
def without_public_key(version: str) -> Verdict:
    return invite(invited_room(version, {"display_name": "b"}), {"signed": signed()})


@refused_by("third_party.otherwise", ["3", "4", "5"])
def signed_with_a_number_that_has_no_canonical_form(version: str) -> Verdict:
    return invite(invited_room(version), {"signed": {**signed(), "n": 1.5}})


@refused_by("third_party_invite.level")
def without_the_power_to_invite(version: str) -> Verdict:
    room = public_room(version, CAROL, levels={"invite": 50, "state_default": 0})
    return room.verdict(room.propose("m.room.third_party_invite", CAROL, {}, "t"))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
@pytest.mark.parametrize(
    "content",
    [
        {"public_key": public(IDENTITY)},
        {"public_keys": [{"public_key": public(STRANGER)}, {"public_key": public(IDENTITY)}]},
        {"public_key": public(STRANGER), "public_keys": [{"public_key": public(IDENTITY)}]},
        {"public_key": 3, "public_keys": [3, {}, {"public_key": "rubbish"}, {"public_key": public(IDENTITY)}]},
    ],
)
def test_any_signature_by_any_key(version: str, content: dict[str, Any]) -> None:
    """5.4.1.7: one key or a list of keys; malformed ones are skipped."""
    several = {
        **signed(),
        "signatures": {
            "elsewhere": "rubbish",
            "other": {"rsa:1": "x", "ed25519:1": 3, "ed25519:2": "x"},
            **signed()["signatures"],
        },
    }
    assert isinstance(invite(invited_room(version, content), {"signed": several}), Allowed)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_sending_one_requires_only_the_invite_level(version: str) -> None:
    """Rule 7.1 is checked before the required power level of state events."""
    assert invited_room(version, sender=CAROL).state()["m.room.third_party_invite", "t"].sender == CAROL


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_joined_user_can_be_invited(version: str) -> None:
    """The rule only checks whether the target is banned."""
    room = invited_room(version)
    room.join(BOB)
    assert isinstance(invite(room, {"signed": signed()}), Allowed)


def test_the_number_of_tried_signatures_is_limited() -> None:
    """A malicious pair of events could require a million of them."""
    keys = [{"public_key": public(STRANGER)}] * 30
    room = invited_room("12", {"public_keys": [*keys, {"public_key": public(IDENTITY)}]})
    many = {f"ed25519:{number}": "x" for number in range(MAX_SIGNATURES_TRIED // 30 + 1)}
    flooded = {**signed(), "signatures": {"flood": many, **signed()["signatures"]}}
    assert isinstance(invite(room, {"signed": flooded}), Refused)
