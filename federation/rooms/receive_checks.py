"""The checks performed on receipt of a PDU, and `KnownEvent`: an event with their verdict.

Server-server API, "Checks performed on receipt of a PDU", steps 1 to 7 in their order. `verify_pdu` does
steps 1 to 3, which need only the event itself and keys; `authorise` does steps 4 to 7, which need other
events and states. If keys or events are missing, the functions return what they need (`NeedKeys`,
`NeedEvents`); the caller loads it and calls again.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Literal

from federation.auth_rules import Refused, check, check_independent
from federation.events import (
    CREATE,
    EventId,
    Malformed,
    Oversized,
    ParseResult,
    Pdu,
    StateKey,
    create_event_id,
    redact_pdu,
)
from federation.events.event_signatures import verify_event
from federation.events.hashes import is_content_hash_valid
from federation.events.received import ACCEPTED, Accepted, Dropped, Rejected, SoftFailed, Verdict
from federation.matrix.room_version import RoomVersion
from federation.matrix.signatures import BadSignature, NeedKeys, NotSigned, VerifyKey
from federation.rooms.policy_server import PolicyServer, is_signed, needs_signature


@dataclass(frozen=True, slots=True)
class NeedEvents:
    """Events that are needed to authorise this one."""

    event_ids: frozenset[EventId]


@dataclass(frozen=True, slots=True)
class VerifiedEvent:
    """An event that has passed steps 1 to 3; redacted if its content hash was wrong."""

    pdu: Pdu
    oversized: str | None = None
    """Why the event exceeds the size limits. It is then stored as rejected."""


Verification = VerifiedEvent | Dropped | NeedKeys


def verify_pdu(
    parsed: ParseResult, version: RoomVersion, keys: Mapping[str, Mapping[str, VerifyKey]], now_ms: int
) -> Verification:
    """Steps 1 to 3, which need only the event and the keys of the servers that signed it.

    If `NeedKeys` is returned although the caller has fetched the keys, they are unavailable: see
    `dropped_without_keys`.
    """
    # 1. Is a valid event, otherwise it is dropped. For an event to be valid, it must contain a `room_id`, and
    #    it must comply with the event format of that room version.
    match parsed:
        case Malformed(problem):
            return Dropped(f"step 1, not a valid event: {problem}")
        case Oversized(pdu, problem):
            oversized: str | None = problem
        case Pdu() as pdu:
            oversized = None
    # 2. Passes signature checks, otherwise it is dropped.
    match verify_event(pdu, version, keys, now_ms):
        case NotSigned(server):
            return Dropped(f"step 2, signature checks: {server or 'no server'} has not signed it")
        case BadSignature(server, key_id):
            return Dropped(f"step 2, signature checks: the signature by {key_id} of {server} is wrong")
        case NeedKeys() as need_keys:
            return need_keys
    # 3. Passes hash checks, otherwise it is redacted before being processed further.
    if not is_content_hash_valid(pdu.event, version):
        pdu = redact_pdu(pdu, version)
    return VerifiedEvent(pdu, oversized)


def dropped_without_keys(need_keys: NeedKeys) -> Dropped:
    """The result for an event whose signing keys are unavailable."""
    return Dropped(f"step 2, signature checks: no key of {', '.join(sorted(need_keys.missing))} is available")


def authorise_by_auth_events(
    event: VerifiedEvent,
    version: RoomVersion,
    auth_events: Mapping[EventId, Pdu],
    *,
    rejected: Container[EventId] = (),
    absent: Container[EventId] = (),
) -> Accepted | Rejected | Dropped | NeedEvents:
    """Step 4: the only check that applies to an outlier, whose position in the event graph is unknown.

    `auth_events` holds the events that `needed_for_step_4` names; `absent` names those that no server could
    provide.
    """
    pdu = event.pdu
    # Server-server API, "Size limits", and Synapse: kept as rejected in the versions that admitted it once.
    if event.oversized is not None:
        return Rejected("size limits", event.oversized)
    needed = needed_for_step_4(pdu, version)
    missing = frozenset(event_id for event_id in needed if event_id not in auth_events)
    unknown = missing - {event_id for event_id in missing if event_id in absent}
    if unknown:
        return NeedEvents(unknown)
    if missing:
        # Another server may still have it, so the event is not rejected for good.
        return Dropped(f"step 4, auth events: {min(missing)} is not available")
    # 4. Passes authorization rules based on the event's auth events, otherwise it is rejected.
    create = None
    if version.create_event_is_room_id and pdu.type != "m.room.create":
        create = auth_events[create_event_id(pdu.room_id)]
    independent = check_independent(pdu, auth_events, version, rejected=rejected, create=create)
    if isinstance(independent, Refused):
        return _rejected(independent)
    state = {key: entry for entry in map(auth_events.__getitem__, pdu.auth_events) if (key := entry.key)}
    if create is not None:
        state[CREATE] = create
    verdict = check(pdu, state, version)
    return _rejected(verdict) if isinstance(verdict, Refused) else ACCEPTED


def authorise(
    event: VerifiedEvent,
    version: RoomVersion,
    auth_events: Mapping[EventId, Pdu],
    state_before: Mapping[StateKey, Pdu],
    current_state: Mapping[StateKey, Pdu] | None,
    *,
    rejected: Container[EventId] = (),
    absent: Container[EventId] = (),
    policy: PolicyServer | None = None,
) -> Verdict | Dropped | NeedEvents:
    """Steps 4 to 7.

    Both states hold exactly the entries that `required_state` names, as far as the room has them.
    `current_state` is None if it equals the state before the event, or if step 6 does not apply. `policy` is
    the room's policy server.
    """
    verdict = authorise_by_auth_events(event, version, auth_events, rejected=rejected, absent=absent)
    if not isinstance(verdict, Accepted):
        return verdict
    pdu = event.pdu
    # 5. Passes authorization rules based on the state before the event, otherwise it is rejected.
    #
    # If that state consists of exactly the event's auth events, as it nearly always does, step 4 has checked
    # it.
    if not _is_auth_state(pdu, state_before, version):
        against_state = check(pdu, state_before, version)
        if isinstance(against_state, Refused):
            return _rejected(against_state)
    # 6. Passes authorization rules based on the current state of the room, otherwise it is "soft failed".
    if current_state is not None:
        against_current = check(pdu, current_state, version)
        if isinstance(against_current, Refused):
            return SoftFailed(against_current.rule, _text(against_current))
    # 7. If the room uses a policy server, passes its signature check, otherwise it is "soft failed".
    if policy is not None and needs_signature(pdu) and not is_signed(pdu, version, policy):
        return SoftFailed("step 7", f"the room's policy server, {policy.server}, has not signed it")
    return ACCEPTED


def _is_auth_state(pdu: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion) -> bool:
    """Whether the state consists of exactly the event's auth events."""
    entries = {entry.event_id for entry in state.values()}
    return entries == set(needed_for_step_4(pdu, version))


def needed_for_step_4(pdu: Pdu, version: RoomVersion) -> tuple[EventId, ...]:
    """The events that step 4 needs: the auth events, and from version 12 on the create event."""
    if version.create_event_is_room_id and pdu.type != "m.room.create":
        return (*pdu.auth_events, create_event_id(pdu.room_id))
    return pdu.auth_events


def _rejected(refused: Refused) -> Rejected:
    return Rejected(refused.rule, _text(refused))


def _text(refused: Refused) -> str:
    return f"{refused.text} ({refused.detail})" if refused.detail else refused.text


VerdictName = Literal["accepted", "soft_failed", "rejected"]


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """An event of a room of this server, with the verdict of the checks."""

    pdu: Pdu
    verdict: VerdictName
    refusal: str | None = None
    state_before: int | None = None
    """The id of the state group before it; None for an outlier, whose position in the event graph is
    unknown."""
    state_after: int | None = None

    @property
    def is_outlier(self) -> bool:
        return self.state_before is None

    @property
    def result(self) -> Verdict:
        """The verdict that the event got when it was received."""
        if self.verdict == "accepted":
            return ACCEPTED
        rule, _, text = (self.refusal or "").partition(": ")
        return SoftFailed(rule, text) if self.verdict == "soft_failed" else Rejected(rule, text)


def known_event(
    pdu: Pdu, verdict: Verdict, state_before: int | None = None, state_after: int | None = None
) -> KnownEvent:
    match verdict:
        case Accepted():
            return KnownEvent(pdu, "accepted", None, state_before, state_after)
        case SoftFailed(rule, text):
            return KnownEvent(pdu, "soft_failed", f"{rule}: {text}", state_before, state_after)
        case Rejected(rule, text):
            return KnownEvent(pdu, "rejected", f"{rule}: {text}", state_before, state_after)
