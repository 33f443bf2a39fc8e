"""Rules 5.4.1 and 7: third-party invites, to an e-mail address or another third-party identifier."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.events import Pdu
from federation.matrix.canonical_json import NotCanonical
from federation.matrix.signatures import bytes_to_sign, decode_base64, is_valid_signature

MAX_SIGNATURES_TRIED: Final = 1_000
"""Each signature is tried with each key. A malicious pair of events could have a million such pairs, which
would take half a minute; normal events have only a few."""


def check_third_party_invite_event(pdu: Pdu, state: RoomState) -> Verdict:
    # 7.1 Allow if and only if `sender`'s current power level is greater than or equal to the *invite level*.
    if state.levels.of_user(pdu.sender) < state.levels.of_action("invite"):
        return refuse(state.version, "third_party_invite.level")
    return ALLOWED


def check_invite_by_token(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    """Rule 5.4.1. It allows the invite of a joined user, as the specification does."""
    version = state.version
    # 5.4.1.1 If *target user* is banned, reject.
    if state.membership(target) == "ban":
        return refuse(version, "third_party.banned")
    # 5.4.1.2 If `content.third_party_invite` does not have a `signed` property, reject.
    third_party_invite = pdu.content["third_party_invite"]
    signed = third_party_invite.get("signed") if isinstance(third_party_invite, dict) else None
    if not isinstance(signed, dict):
        return refuse(version, "third_party.signed")
    # 5.4.1.3 If `signed` does not have `mxid` and `token` properties, reject.
    token = signed.get("token")
    if "mxid" not in signed or not isinstance(token, str):
        return refuse(version, "third_party.properties")
    # 5.4.1.4 If `mxid` does not match `state_key`, reject.
    if signed["mxid"] != target:
        return refuse(version, "third_party.mxid")
    # 5.4.1.5 If there is no `m.room.third_party_invite` event in the current room state with `state_key`
    # matching `token`, reject.
    invite = state.event("m.room.third_party_invite", token)
    if invite is None:
        return refuse(version, "third_party.token")
    # 5.4.1.6 If `sender` does not match `sender` of the `m.room.third_party_invite`, reject.
    if invite.sender != pdu.sender:
        return refuse(version, "third_party.sender")
    # 5.4.1.7 If any signature in `signed` matches any public key in the `m.room.third_party_invite` event,
    # allow.
    try:
        signed_bytes = bytes_to_sign(signed)
    except NotCanonical:
        return refuse(version, "third_party.otherwise", "signed has no canonical form")
    pairs = ((public, made) for public in _public_keys(invite) for made in _signatures(signed))
    if any(is_valid_signature(public, signed_bytes, made) for public, made in islice(pairs, MAX_SIGNATURES_TRIED)):
        return ALLOWED
    # 5.4.1.8 Otherwise, reject.
    return refuse(version, "third_party.otherwise")


def _public_keys(invite: Pdu) -> Iterator[bytes]:
    # "The public keys are in `content` of `m.room.third_party_invite` as:"
    # 5.4.1.7.1 A single public key in the `public_key` property.
    candidates = [invite.content.get("public_key")]
    # 5.4.1.7.2 A list of public keys in the `public_keys` property.
    several = invite.content.get("public_keys")
    if isinstance(several, list):
        candidates += [entry.get("public_key") for entry in several if isinstance(entry, dict)]
    for candidate in candidates:
        decoded = decode_base64(candidate)
        if decoded is not None:
            yield decoded


def _signatures(signed: dict[str, object]) -> Iterator[str]:
    by_server = signed.get("signatures")
    if not isinstance(by_server, dict):
        return
    for made_by_server in by_server.values():
        if not isinstance(made_by_server, dict):
            continue
        for key_id, made in made_by_server.items():
            if key_id.startswith("ed25519:") and isinstance(made, str):
                yield made
