"""Selects the auth events of an event. Server-server API, "Auth events selection"."""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from federation.events import CREATE, StateKey
from federation.matrix.room_version import RoomVersion

POWER_LEVELS: Final[StateKey] = ("m.room.power_levels", "")
JOIN_RULES: Final[StateKey] = ("m.room.join_rules", "")


class AuthorisableEvent(Protocol):
    """The fields that decide the selection. A PDU and a template have them."""

    @property
    def type(self) -> str: ...
    @property
    def sender(self) -> str: ...
    @property
    def state_key(self) -> str | None: ...
    @property
    def content(self) -> Mapping[str, Any]: ...


def auth_event_keys(event: AuthorisableEvent, version: RoomVersion) -> list[StateKey]:
    """The keys of the state events that may be in `auth_events`; those that exist in the room state must be.

    "The `auth_events` for the `m.room.create` event in a room is empty; for other events, it should be the
    following subset of the room state".
    """
    needed = required_state(event, version)
    if version.create_event_is_room_id:
        # Version 12: "The `m.room.create` event MUST NOT be selected for `auth_events` on events. The
        # `room_id` (being the `m.room.create` event's ID) implies this instead."
        return [key for key in needed if key != CREATE]
    return needed


def required_state(event: AuthorisableEvent, version: RoomVersion) -> list[StateKey]:
    """The keys of the state events that `check` reads: the same, and in all room versions the create
    event."""
    if event.type == "m.room.create":
        return []
    # "The `m.room.create` event. The current `m.room.power_levels` event, if any. The sender's current
    # `m.room.member` event, if any."
    needed = [CREATE, POWER_LEVELS, ("m.room.member", event.sender)]
    if event.type == "m.room.member":
        _of_member(event, version, needed)
    return needed


def _of_member(event: AuthorisableEvent, version: RoomVersion, needed: list[StateKey]) -> None:
    membership = event.content.get("membership")
    # "The target's current `m.room.member` event, if any."
    if event.state_key is not None and event.state_key != event.sender:
        needed.append(("m.room.member", event.state_key))
    # "If `membership` is `join`, `invite` or `knock`, the current `m.room.join_rules` event, if any."
    if membership in ("join", "invite", "knock"):
        needed.append(JOIN_RULES)
    # "If membership is `invite` and `content` contains a `third_party_invite` property, the current
    # `m.room.third_party_invite` event with `state_key` matching `content.third_party_invite.signed.token`".
    if membership == "invite":
        token = _token(event.content.get("third_party_invite"))
        if token is not None:
            needed.append(("m.room.third_party_invite", token))
    # "If `content.join_authorised_via_users_server` is present, and the room version supports restricted
    # rooms, then the `m.room.member` event with `state_key` matching" it. For joins only, as in Synapse.
    if membership == "join" and version.restricted_joins:
        authoriser = event.content.get("join_authorised_via_users_server")
        if isinstance(authoriser, str) and ("m.room.member", authoriser) not in needed:
            needed.append(("m.room.member", authoriser))


def _token(third_party_invite: object) -> str | None:
    signed = third_party_invite.get("signed") if isinstance(third_party_invite, dict) else None
    token = signed.get("token") if isinstance(signed, dict) else None
    return token if isinstance(token, str) else None
